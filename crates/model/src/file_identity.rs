//! A file and its state, as two nodes that mount one file system both see them.

use serde::{Deserialize, Serialize};

/// What tells one file of a file system from all others, and one state of it from others. Numbers of devices are each
/// node's own and no part of it. KERNEL: statx(2), name_to_handle_at(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last write: seconds, nanoseconds.
    pub mtime: (i64, u32),
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    /// Type and bytes of the file's handle; empty where the file system has none. At most 132 bytes.
    pub handle: Vec<u8>,
}
