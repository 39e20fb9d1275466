//! The table of open files.

use crate::server::inodes::{attr, proc_path};
use crate::server::res::Res;
use crate::sync::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};

/// Open files of a session at most.
const OPEN_MAX: usize = 256 << 10;
/// Below this much free space a write is answered when it was made: at 1 GB/s what a mount may have posted (8 MiB) is
/// reached a hundred times later.
const ROOMY: u64 = 1 << 30;
/// The space is looked at again after so many writes: 256 of 1 MiB are a quarter of it.
pub const LOOK_EVERY: u32 = 256;
pub struct Open {
    pub file: File,
    /// The file's number, for locks.
    pub node: u64,
    pub write: bool,
    pub dir: Mutex<Option<u64>>,
    pub writes: AtomicU32,
    pub roomy: AtomicBool,
}

#[derive(Default)]
struct Table {
    open: HashMap<u64, Arc<Open>>,
    next: u64,
}

#[derive(Default)]
pub struct Files {
    table: Mutex<Table>,
}

impl Files {
    pub fn add(&self, file: File, node: u64, flags: OFlags) -> Res<(u64, Arc<Open>)> {
        let write = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let open = Arc::new(Open {
            roomy: AtomicBool::new(write && roomy(&file)),
            file,
            node,
            write,
            dir: Mutex::new(Some(0)),
            writes: AtomicU32::new(0),
        });
        let mut t = lock(&self.table);
        if t.open.len() >= OPEN_MAX {
            return Err(Errno::NFILE);
        }
        t.next += 1;
        let id = t.next;
        t.open.insert(id, open.clone());
        Ok((id, open))
    }

    pub fn get(&self, id: u64) -> Res<Arc<Open>> {
        lock(&self.table).open.get(&id).cloned().ok_or(Errno::BADF)
    }

    pub fn close(&self, id: u64) -> Option<Arc<Open>> {
        lock(&self.table).open.remove(&id)
    }

    pub fn count(&self) -> usize {
        lock(&self.table).open.len()
    }
}

pub fn roomy(f: &File) -> bool {
    rustix::fs::fstatfs(f).is_ok_and(|s| s.f_bavail.saturating_mul(s.f_bsize as u64) >= ROOMY)
}

/// Set-user-ID and set-group-ID end with a write of somebody who is not root. A server that is not root leaves that to
/// the kernel. KERNEL: chmod(2); FUSE_HANDLE_KILLPRIV_V2.
pub fn kill_privileges(f: impl std::os::fd::AsFd) {
    let Ok(a) = attr(&f) else { return };
    let both = libc::S_IXGRP | libc::S_ISGID;
    let mut mode = a.mode & 0o7777 & !libc::S_ISUID;
    if a.mode & both == both {
        mode &= !libc::S_ISGID;
    }
    if mode != a.mode & 0o7777 {
        let _ = rustix::fs::chmod(proc_path(f), Mode::from_raw_mode(mode));
    }
}

pub fn errno(e: std::io::Error) -> Errno {
    Errno::from_io_error(&e).unwrap_or(Errno::IO)
}
