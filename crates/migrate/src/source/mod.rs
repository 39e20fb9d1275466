//! The source: writes what [`crate::target`] reads.
//!
//! From: `keeper/src/moves/out.rs` (home) or `host/src/moves/depart.rs` (body). Next: `migrate/src/target.rs`.
//!
//! One file for each phase: `offer.rs`; `precopy.rs`, while the process runs; when the owner has frozen it, `dirty.rs`
//! and `state.rs`. For a process that writes faster than the link carries, most comes after the flip:
//! `postcopy/push.rs`. For a checkpoint that is to go on: `stored.rs`. It never freezes a process or lets it run: its owner does.

mod again;
mod dirty;
mod job;
mod offer;
mod precopy;
mod send_pages;
mod state;
mod stored;

pub use again::SentBefore;
pub use job::{Job, Opened, Throttle};
