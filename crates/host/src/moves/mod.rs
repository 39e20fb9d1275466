//! Moves of processes: one arrives, one leaves.
//!
//! Which process moves, and when, is decided at home; what it does before and after is in `calls` and `threads`. Start at
//! `arrive.rs` and `depart.rs`, which face each other.

mod arrive;
mod build;
mod build_threads;
mod capture;
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
