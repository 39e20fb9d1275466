//! Addresses: what a person writes, what a name means, and where others reach this node.
//!
//! It never asks another node. Start at `settled.rs`; `written.rs` reads `host`, `host:port` and `[v6]:port`, `resolve.rs`
//! asks the system for a name, `interfaces.rs` lists this machine's own addresses, and `found.rs` chooses the one that
//! others reach.

mod found;
mod interfaces;
mod resolve;
mod settled;
mod sys;
mod written;

pub use found::{Choice, choose};
pub use resolve::{advertised_address, listen_at, lookup, outer_list};
pub use settled::{Watch, settle};
pub use written::{PORT, Written};
