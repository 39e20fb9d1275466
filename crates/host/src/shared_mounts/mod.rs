//! Files of mounts that this node shares with others (DFSA): opened for guests with their user's rights.
//!
//! A host has no right to any file of its node. Before it gives its privileges up it leaves a child, the opener, which
//! becomes the guests' user and opens regular files below the mounts that this node declares, and nothing else. It makes no
//! call for a guest. Start at `mounts.rs`, then `opener.rs`.

mod message;
mod mounts;
mod opener;
mod sys;

pub use mounts::SharedMounts;
