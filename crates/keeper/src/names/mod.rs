//! Directories that a host knows: their entries, as long as nothing in them changes.
//!
//! Each is watched by inotify(7) from before it was read. A change is sent to the host ahead of whatever the keeper sends it
//! next. It decides nothing about paths: `keeper/src/calls/names.rs` says which directories a host needs. Start at
//! `known.rs`.

mod attributes;
mod directory;
mod files;
mod known;
mod requests;
mod sys;

pub(crate) use attributes::is_seen_read;
pub(crate) use directory::{Directory, entries, open};
pub(crate) use known::{Forgotten, Learned, Names, Told};
pub(crate) use requests::{Reply, Request};
pub(crate) use sys::mounts_changed;
