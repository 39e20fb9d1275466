//! The farm as one TOML file: nets, profiles, nodes, their cards, bonds, wiring. Reads text and checks it; opens no file
//! but those that its caller opens for it. Start at [`parse`]; [`Farm`] is what the other rooms use.

mod add;
mod check;
mod farm;
mod links;
mod macs;
mod names;
mod problem;
mod read;
mod reader;

pub use add::{Edit, NewNode, add_node};
pub use farm::{
    Attached, Bond, BondMode, Cable, Direct, Farm, Kind, Link, Net, Node, Port, Root, Wiring,
};
pub use names::expand;
pub use problem::{Problem, Problems};
pub use read::parse;

/// Most nodes of one farm: numbers are 16 bits wide, as in openmosix.map.
pub const NODES_MAX: usize = 65_535;
/// Largest inventory, bytes: 10,000 nodes with two cards each take about 2 MB.
pub const FILE_MAX: usize = 64 << 20;
