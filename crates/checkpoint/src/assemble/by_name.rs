//! Opens by name: what a description was opened with, and again what is open already.

use crate::home::Bytes;
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Flags of open(2) that act at the open alone.
const ONCE: u32 = (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC) as u32;
/// Of a file that had no name: O_TMPFILE, and O_DIRECTORY in it.
pub const FILE_FLAGS: u32 = libc::O_TMPFILE as u32;
/// Opens by name, with the recorded flags.
pub fn try_open(path: &Bytes, flags: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags & !ONCE) | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(open(path.path(), flags, Mode::empty())?)
}

/// Another open file description of the same file. KERNEL: proc_pid_fd(5).
pub fn reopen(fd: BorrowedFd, flags: u32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    try_open(&Bytes(path.into_bytes()), flags)
}
