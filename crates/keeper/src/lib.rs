//! The keeper: the half of the engine that stays home.
//!
//! One process a tree (`armento run` or `migrate`), in its own session, with the user's uid. It seizes
//! a process for a move and lets go afterwards; while a body is away it keeps the deputy and serves the
//! body's calls through it. It never decides who moves (the daemon does) and never touches the network
//! but through authenticated links. Start at `launch/mod.rs`, then `events/mod.rs`, `moves/mod.rs` and `calls/mod.rs`.

mod calls;
mod cpu_features;
mod cpu_time;
mod daemon;
mod deputy;
mod descriptors;
mod events;
mod handover;
mod hosts;
mod instants;
mod launch;
mod lifecycle;
mod moves;
mod names;
mod observers;
mod record;
mod remote;
mod restart;
mod safe;
mod saved;
mod shared_mounts;
mod sharing;
mod signals;
mod sockets;
mod state;
mod storm_targets;
mod sync;
mod sys;
mod traced;

pub use cpu_features::Portable;
pub use handover::TAKE_OVER;
pub use launch::{Begin, Birth, BirthError, adopt, launcher, restart, run, run_native, succeed};
pub use state::{Restart, Safety, Storm};
pub use traced::command_gains;
