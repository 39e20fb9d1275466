//! `armento run` and `armento migrate`: a keeper is forked for a program.
//!
//! It never moves anything. Start at `start.rs`, then `keeper.rs`.

mod keeper;
mod launcher;
mod leases;
mod options;
mod start;
mod successor;

pub use launcher::launcher;
pub use options::{Begin, Birth, BirthError};
pub use start::{adopt, restart, run, run_native};
pub use successor::succeed;
