//! The load vector: a node's data about the other nodes, with its age.
//!
//! Every period each node sends its freshest entries to a few randomly chosen others, as MOSIX did: there is no
//! polling, traffic per node does not grow with the farm's requests, and a free node is not known everywhere at once,
//! so it is not flooded with processes. Time and randomness are passed in; messages are returned as values. This crate
//! never opens a socket, reads a clock or decides about processes.
//!
//! Start at [`Vector`]; [`Entry`] is a node's report about itself. It is built on a [`Table`], in which nodes are
//! numbers.

mod answers;
mod cpu;
mod dice;
mod entry;
mod life;
mod message;
mod names;
mod packet;
mod table;
mod vector;

pub use cpu::CpuSet;
pub use dice::Dice;
pub use entry::{Entry, Known, STANDARD_SPEED, Tick, Wire};
pub use message::{ITEMS_MAX, MESSAGE_BYTES_MAX, Message};
pub use packet::Packet;
pub use table::{Heard, Table};
pub use vector::Vector;
