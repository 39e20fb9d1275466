//! File servers of this node, each a process with the rights of one user for the mount of one node: the table, and what is
//! written down of them and of the mount, so that the next daemon finds both.
//!
//! It starts and ends no process; `mfs/` does. Start at `table.rs`.

mod notes;
mod record;
mod table;

pub use notes::{Notes, Said};
pub use record::{MOUNT_FILE, MountRecord, ServerRecord, dir, erase, server_file, stem};
pub use table::{FileServers, Stage};
