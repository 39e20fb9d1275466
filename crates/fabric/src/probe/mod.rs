//! Asks the neighbours of this machine: echo, packet sizes, answers for addresses, frames of other observers. Needs root
//! (raw sockets); changes nothing. Start at [`probe`].
//!
//! Each node probes for itself: no node asks for another, and none is in the middle.

mod arp;
mod beacon;
mod dhcp;
mod echo;
mod load;
mod observer;
mod size;
mod sys;

pub use observer::{Options, probe};
