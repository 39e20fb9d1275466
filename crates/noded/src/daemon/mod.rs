//! The daemon from start to end, by hand, as a service, or beside a test.
//!
//! It starts everything else and does none of its work. Start at `service.rs`, then `start.rs`.

mod goes_on;
mod service;
mod start;
mod wait;

pub use service::{run, run_service};
pub use start::{Options, Running, start};
pub use wait::is_waiting;
