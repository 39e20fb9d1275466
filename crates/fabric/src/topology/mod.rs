//! Who reaches whom by which cable, and what a wiring costs. Pure. Start at [`hops`] and [`cost`].

mod cost;
mod graph;

pub use cost::{Cost, MBIT, cost, table as cost_table};
pub use graph::{Hop, hops, is_joint};
