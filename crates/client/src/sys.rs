//! A system call that the standard library does not offer.

use std::os::fd::RawFd;

/// Whether there is data, or the end, without blocking (poll(2)). If poll fails the caller reads, and gets the error
/// then.
pub fn is_readable(fd: RawFd) -> bool {
    let mut one = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which outlives the call.
    unsafe { libc::poll(&mut one, 1, 0) != 0 }
}
