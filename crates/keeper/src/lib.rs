//! The keeper: the half of the engine that stays home.
//!
//! One process a tree (`armento run` or `migrate`), in its own session, with the user's uid. It seizes
//! a process for a move and lets go afterwards; while a body is away it keeps the deputy and serves the
//! body's calls through it. It never decides who moves (the daemon does) and never touches the network
//! but through authenticated links. Start at [`birth`], then `tree.rs` and `serve.rs`.

mod ahead;
mod aimed;
mod arrive;
mod backlog;
pub mod birth;
mod control;
mod cores;
mod cpu;
mod depart;
mod deputy;
mod family;
mod follow;
mod freeze;
mod futex_waits;
mod group;
mod hold;
mod hollow;
mod keep;
mod lasting;
mod led;
mod lines;
mod links;
mod loading;
mod looks;
mod mappings;
mod mover;
mod onlookers;
mod onward;
mod outside;
mod partners;
mod permission;
mod portable;
mod privileged;
mod queue;
mod reasons;
mod refusal;
mod remainder;
mod room;
mod serve;
mod signals;
mod storm;
mod storm_call;
mod summary;
mod sys;
mod timer_set;
mod timers;
mod tree;
mod waits;
mod wakes;
mod watch;
mod words;

pub use portable::Portable;
pub use privileged::command_gains;

pub use birth::{Birth, BirthError, Storm, adopt, run, run_native};
