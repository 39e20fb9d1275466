//! The unsafe lines of fanotify(7): opens of guarded files are held.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A fanotify group that holds opens of marked files. KERNEL: fanotify(7); asks for CAP_SYS_ADMIN.
pub fn fanotify() -> io::Result<OwnedFd> {
    let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC;
    let events = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE) as u32;
    // SAFETY: plain numbers; a descriptor of ours alone comes back.
    unsafe {
        let fd = libc::fanotify_init(flags, events);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub fn watch_opens(fan: &OwnedFd, file: BorrowedFd<'_>, yes: bool) -> io::Result<()> {
    let what = if yes {
        libc::FAN_MARK_ADD
    } else {
        libc::FAN_MARK_REMOVE
    };
    // SAFETY: live descriptors; without a path the mark is that of the descriptor's file.
    let r = unsafe {
        libc::fanotify_mark(
            fan.as_raw_fd(),
            what,
            libc::FAN_OPEN_PERM,
            file.as_raw_fd(),
            std::ptr::null(),
        )
    };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Waits for a process to open a marked file: the file, and the process.
pub fn held_opens(fan: &OwnedFd) -> io::Result<Vec<(File, i32)>> {
    // struct fanotify_event_metadata: length u32, version, reserved, its own length u16, mask u64, fd, pid.
    const EVENT: usize = 24;
    let mut buf = [0u8; EVENT * 16];
    // SAFETY: a live buffer of that length; every descriptor that comes in an event is ours to close.
    unsafe {
        let n = libc::read(fan.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len());
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        let word =
            |e: &[u8], at: usize| i32::from_le_bytes([e[at], e[at + 1], e[at + 2], e[at + 3]]);
        let events = buf[..n as usize].chunks_exact(EVENT);
        let open = events
            .map(|e| (word(e, 16), word(e, 20)))
            .filter(|(fd, _)| *fd >= 0);
        Ok(open.map(|(fd, pid)| (File::from_raw_fd(fd), pid)).collect())
    }
}

/// Lets the open of `file` go on, or refuses it.
pub fn answer_open(fan: &OwnedFd, file: &File, yes: bool) {
    let answer = if yes { libc::FAN_ALLOW } else { libc::FAN_DENY };
    let mut bytes = file.as_raw_fd().to_le_bytes().to_vec();
    bytes.extend_from_slice(&answer.to_le_bytes());
    // SAFETY: a live buffer of that length. When it fails the opener was killed.
    unsafe { libc::write(fan.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}
