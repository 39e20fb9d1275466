//! Pages of memory: which were written, how they are packed for the link, how a target writes them, and how a checkpoint
//! keeps them.
//!
//! It never speaks to the other node: `migrate/src/source/mod.rs` and `migrate/src/target.rs` do. Start at
//! `dirty.rs`, then `dedup.rs`.

mod compression;
mod dedup;
mod dirty;
mod ranges;
mod store;
mod writer;

pub(crate) use dedup::Pack;
pub(crate) use dirty::{Rest, Watch};
pub use ranges::{Later, Unsent};
pub use store::PageStore;
pub use writer::{Filler, Sink, StandIns};
