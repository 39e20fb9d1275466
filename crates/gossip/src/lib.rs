//! The load vector: what each node knows about the others, and how old that is.
//!
//! Every period each node sends its freshest entries to a few randomly chosen others, as MOSIX
//! did: nobody polls, nobody is asked, traffic per node does not grow with the farm's requests,
//! and a free node is not known everywhere at once, so it is not assaulted. Time and dice are
//! handed in; messages go out as values. This crate never opens a socket, reads a clock or
//! decides about processes.
//!
//! Start at [`Vector`]; [`Entry`] is what a node says about itself. Behind it is a [`Table`], where nodes are numbers.

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
