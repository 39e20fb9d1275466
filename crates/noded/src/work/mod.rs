//! Work between nodes: moves that were asked for, guests that are admitted, and what both need to know first.
//!
//! It decides no move by itself (`policy/` does) and touches no program but through keepers and hosts. Start at
//! `route.rs` on the home's side, `admit.rs` on the target's.

mod admit;
mod checkpoint;
mod clocks;
mod migrate;
mod overhead;
mod route;
mod safe;
mod signal;
mod start_host;
mod target;
mod traceable;
mod why;
mod yama;

pub use admit::admit_guests;
pub use checkpoint::write_checkpoint;
pub use clocks::ClockWatch;
pub use migrate::{move_process, move_soon, no_such, owner_of};
pub use overhead::Overhead;
pub use route::{Wants, find_route};
pub use safe::make_safe;
pub use signal::{renice, resume, stop};
pub use why::explain;
pub use yama::{allow_keeper, let_trace};
