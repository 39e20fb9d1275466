//! What this daemon orders by itself: moves of the policy, and what settings and commands no longer allow.
//!
//! It decides with `balance`, and orders keepers and hosts; it moves nothing. Start at `act.rs`.

mod act;
mod drained;
mod enforce;
mod safe;
mod switches;
mod trust;

pub use act::{Asked, Chosen, choose, order_moves, order_moves_when_freed};
pub use drained::{check_drain, drain_info, drain_this, out_of_date};
pub use enforce::{drain, enforce_settings};
pub use safe::make_old_trees_safe;
pub use switches::switch;
pub use trust::{change_trust, reload};
