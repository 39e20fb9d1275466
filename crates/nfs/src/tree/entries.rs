//! The names in a directory.

use super::failed::{Failed, status};
use super::found::Found;
use rustix::fs::{Mode, OFlags, RawDir};
use std::mem::MaybeUninit;

/// What is read at once.
const CHUNK: usize = 32 << 10;

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Box<[u8]>,
    /// The file system's number.
    pub inode: u64,
}

/// All names but `.` and `..`, as the file system has them. Before: root.
pub fn list(dir: &Found) -> Result<Vec<Entry>, Failed> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&dir.fd, c".", flags, Mode::empty()).map_err(status)?;
    let mut chunk = vec![MaybeUninit::uninit(); CHUNK];
    let mut raw = RawDir::new(fd, &mut chunk);
    let mut all = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(status)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            all.push(Entry {
                name: name.into(),
                inode: entry.ino(),
            });
        }
    }
    Ok(all)
}
