//! Addresses: what a person writes, what a name means, and where others reach this node.
//!
//! `written.rs` reads `host`, `host:port` and `[v6]:port`; `resolve.rs` asks the system for a name; `interfaces.rs` lists
//! this machine's own addresses; `found.rs` chooses the one that others reach, and follows it when it changes.

mod found;
mod interfaces;
mod resolve;
mod settled;
mod sys;
mod written;

pub use found::{Candidate, Choice};
pub(crate) use found::{Follow, choose, follow};
pub(crate) use interfaces::{has, own};
pub(crate) use resolve::{listen_at, lookup, outer_list, told_as};
pub(crate) use settled::{Watch, settle};
pub(crate) use written::Written;

/// Where a node listens, and where one is looked for, if no port is given.
pub const PORT: u16 = 7117;
