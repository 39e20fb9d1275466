//! The program of this node is replaced, and the daemon becomes the new one; what runs here, by version.
//!
//! Keepers become the daemon's program, too, one after the other (`keepers.rs`, RFD 77). It decides nothing else: a
//! person orders it here, or a holder of the farm's key from another node, where the settings allow that. Start at
//! `program.rs` (the file), then `receive.rs` (it comes from another node) and `reexec.rs`.

mod keepers;
mod program;
mod receive;
mod reexec;
mod versions;

pub use keepers::upgrade_keepers;
pub use program::{install, previous, program_hash, rollback, versions_of};
pub use receive::{announced, ended, part};
pub use reexec::{become_program, reap_inherited, restart};
pub use versions::versions_info;
