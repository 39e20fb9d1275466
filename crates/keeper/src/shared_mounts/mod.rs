//! Mounts that this node shares with a host's (DFSA): whether both see the same files there, and which descriptors of a
//! program the host may open itself.
//!
//! It sends nothing and waits for nothing but a file system. `keeper/src/hosts/shared_mounts.rs` asks the host. Start at
//! `mounts.rs`, then `judge.rs`.

mod judge;
mod mounts;
mod offer;

pub(crate) use mounts::Mounts;
