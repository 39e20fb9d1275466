//! The one system call that the standard library has no name for.

use std::os::fd::RawFd;

/// Is there something to read, or the end? poll(2), at once. What cannot be asked is read, and says so then.
pub fn is_readable(fd: RawFd) -> bool {
    let mut one = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which outlives the call.
    unsafe { libc::poll(&mut one, 1, 0) != 0 }
}
