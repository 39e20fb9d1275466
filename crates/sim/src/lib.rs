//! Farms in virtual time: the real load vector, ledger, decisions and admission of every node, with simulated machines
//! and programs.
//!
//! Start at [`World`]. Repeatable: the same seed, the same run.

mod chance;
mod machine;
mod play;
mod world;

pub use chance::{Arrivals, mixed};
pub use machine::Machine;
pub use play::play;
pub use world::{Ages, Copying, Fault, Job, Outcome, Prices, Rack, Traffic, World};
