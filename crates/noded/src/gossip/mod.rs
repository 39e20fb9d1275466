//! The datagram half of a daemon: SWIM membership and the load vector, on one socket, and what is done once a period.
//!
//! It decides nothing: `policy/` does, called once a period. Start at `run.rs`, then `period.rs`.

mod period;
mod run;
mod slow;
mod swim;
mod timers;
mod timing;

pub use run::Gossip;
