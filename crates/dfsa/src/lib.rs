//! Mounts that several nodes share (DFSA, direct file system access): what kind they are, and whether two nodes see the
//! same files in them.
//!
//! Each function looks at one file system of the calling process, with its rights. This crate never speaks to another
//! node: `crates/keeper` and `crates/host` tell each other what they see here. Start at [`Root`], then [`Proof`].
//!
//! PAPER: openMosix HOWTO, chapter 12: DFSA, "direct file system access".

mod identity;
mod kind;
mod proof;
mod root;
mod sys;

pub use identity::identity;
pub use kind::{Coherence, Kind, kind};
pub use proof::{DIRECTORY, Proof, is_name, make_directory, read, remove};
pub use root::{NoRoot, Root};

/// The running kernel. Two nodes with the same one are parts of one machine. KERNEL: random(4), boot_id.
pub fn kernel() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
