//! Moves of processes: one arrives, one leaves.
//!
//! It never decides which process moves, nor when: home does. Start at `arrive.rs` and `depart.rs`, the two sides of a
//! move.

mod arrive;
mod build;
mod build_threads;
mod capture;
mod connect;
mod depart;
mod freeze;
mod map_areas;
mod postcopy;
mod sharers;
mod survey;
mod throttle;

pub use arrive::{drop_unthawed, receive, thaw};
pub use depart::{abort, depart};
pub use freeze::unfreeze;
pub use postcopy::drop_later;
pub use sharers::send_object;
