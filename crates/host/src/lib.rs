//! The host: gives guests of one home and one tree a place to run, and nothing else.
//!
//! A process of its own (`armento host`), started by the target's daemon, which it outlives. It keeps
//! bodies in empty namespaces behind a filter, sends their calls home and carries out what comes back.
//! It never decides who moves and touches no file of this node but the copies of
//! home's that its user's hosts share (`cache.rs`). Start at [`main`], then `serve.rs`.

mod ahead;
mod alike;
mod arrive;
mod behind;
mod bodies;
mod brake;
mod cache;
mod coming;
mod cpu;
mod depart;
mod fork;
mod forward;
mod freeze;
mod futex_waits;
mod growth;
mod home;
mod mapping;
mod passage;
mod report;
mod resume;
mod rights;
mod serve;
mod shared;
mod shut;
mod sigwaits;
mod start;
mod sys;
mod talk;
mod timers;
mod turns;
mod vdso;
mod veils;
mod walls;
mod whole;
mod words;
mod world;
mod zygote;

pub use start::main;
pub use walls::{Forbidden, probe_as};
