//! Farms in virtual time: the real load vector, ledger, decisions and admission of every node, around
//! machines and programs that are numbers.
//!
//! Start at [`World`]. Repeatable: the same seed, the same run.

mod machine;
mod world;

pub use machine::Machine;
pub use world::{Job, Outcome, Prices, Rack, World};
