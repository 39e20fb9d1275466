//! `armento run` and `armento migrate`: a keeper is forked for a program.
//!
//! It never moves anything. Start at `start.rs`, then `keeper.rs`.

mod keeper;
mod leases;
mod options;
mod start;

pub use options::{Birth, BirthError, Storm};
pub use start::{adopt, run, run_native};
