//! Opens by name: what a description was opened with, and again what is open already.

use crate::home::Bytes;
use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, fstat, open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Flags of open(2) that act at the open alone.
const ONCE: u32 = (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC) as u32;
/// Of a file that had no name: O_TMPFILE, and O_DIRECTORY in it.
pub const FILE_FLAGS: u32 = libc::O_TMPFILE as u32;
/// What F_SETFL sets (fcntl(2)); an open decides the rest.
pub const SETTABLE: u32 =
    (libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK) as u32;

/// Opens by name, with the recorded flags, only what is of this type: a FIFO in the place of a file would make the open wait,
/// a file in the place of a FIFO would be written to.
pub fn try_open(path: &Bytes, flags: u32, wanted: FileType) -> io::Result<OwnedFd> {
    let fd = open_any(path.path(), flags | libc::O_NONBLOCK as u32)?;
    let found = FileType::from_raw_mode(fstat(&fd)?.st_mode);
    if found != wanted {
        return Err(io::Error::other(format!("it is no {} now", name(wanted))));
    }
    if flags & libc::O_PATH as u32 == 0 {
        fcntl_setfl(&fd, OFlags::from_bits_retain(flags & SETTABLE))?;
    }
    Ok(fd)
}

fn name(of: FileType) -> &'static str {
    match of {
        FileType::Directory => "directory",
        FileType::Fifo => "FIFO",
        FileType::CharacterDevice => "device",
        _ => "ordinary file",
    }
}

fn open_any(path: &Path, flags: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags & !ONCE) | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(open(path, flags, Mode::empty())?)
}

/// Another open file description of the same file. KERNEL: proc_pid_fd(5).
pub fn reopen(fd: BorrowedFd, flags: u32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    open_any(path.as_ref(), flags)
}
