//! Hosts of this node, each a process that holds the guests of one tree: the table, records on disk, control groups.
//!
//! It starts no host and admits no guest; `work/` does. Start at `table.rs`.

mod cgroup;
mod cgroup_files;
mod entry;
mod expel;
mod files;
mod limits;
mod record;
mod table;

pub use cgroup::{Cgroups, apart, clear as clear_cgroups, limit, weigh};
pub use entry::Stage;
pub use expel::Whom;
pub use files::{clean_up, erase, kill, open_log, shared_files, trim_logs};
pub use record::{Record, file_of, records, stem};
pub use table::{HELLO_MAX, HostTable};
