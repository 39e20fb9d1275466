//! The host: gives guests of one home and one tree a place to run, and nothing else.
//!
//! A process of its own (`armento host`), started by the target's daemon, which it outlives. It keeps bodies in empty
//! namespaces behind a filter, sends their calls home and carries out what comes back. It never decides who moves and
//! touches no file of this node but the copies of home's that its user's hosts share (`files/cache.rs`), and files of mounts
//! that the node declares as shared (`shared_mounts`).
//!
//! Each folder is a room that imports only those below it (`rooms.toml`); its `mod.rs` says what it is for. Start at
//! [`main`], then `calls/dispatch.rs`.

mod calls;
mod events;
mod files;
mod home;
mod inject;
mod isolation;
mod moves;
mod shared_mounts;
mod start;
mod state;
mod sync;
mod sys;
mod threads;

pub use isolation::{Forbidden, probe_as};
pub use start::main;
