//! A descriptor that was just opened, as its host may open it.

use super::mounts::Mounts;
use crate::sys;
use armento_dfsa::identity;
use armento_model::Pid;
use armento_tracee::sys as tsys;
use armento_wire::talk::DirectFile;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

/// Flags of a description that a host has as well.
const SAME: i32 = libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC;
/// Bits that every open for reading and writing may have beside. KERNEL: O_LARGEFILE is set on 64-bit machines.
const HARMLESS: i32 = 0x8000 | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_DIRECTORY;
/// A write by another user takes these away. KERNEL: inode(7).
const PRIVILEGED: u32 = libc::S_ISUID | libc::S_ISGID;

impl Mounts {
    /// The file behind a descriptor that a call of `pid` has made just now, if it is a regular one below a mount that the
    /// host sees as we do. Before: no other process has the table of descriptors.
    pub fn offer(&self, pid: Pid, fd: i32) -> Option<DirectFile> {
        if self.declared().is_empty() {
            return None;
        }
        let path = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        self.with_mount(&path, |mount, root| {
            let file = File::from(tsys::steal_fd(pid, fd).ok()?);
            let flags = sys::status_flags(&file)?;
            let id = identity(&file)?;
            let regular = id.mode & libc::S_IFMT == libc::S_IFREG;
            let plain = id.mode & PRIVILEGED == 0 && flags & !(SAME | HARMLESS) == 0;
            let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
            if !regular || !plain || !root.has(&file) || !reads && limits_size(pid) {
                return None;
            }
            // Of a file that was removed the kernel says so behind its name, and its host finds none.
            let below = path.strip_prefix(&mount.path).ok()?;
            Some(DirectFile {
                mount: mount.path.as_os_str().as_bytes().to_vec(),
                path: below.as_os_str().as_bytes().to_vec(),
                flags: flags & SAME,
                identity: id,
            })
        })
    }
}

/// Its limit of file size ends a write early, or with a signal. KERNEL: setrlimit(2), RLIMIT_FSIZE.
fn limits_size(pid: Pid) -> bool {
    tsys::limit(pid, libc::RLIMIT_FSIZE).is_none_or(|(soft, _)| soft != libc::RLIM_INFINITY)
}
