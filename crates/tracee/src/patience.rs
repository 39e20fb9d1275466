//! Does who writes to somebody's descriptor wait until all is written, or who reads with MSG_WAITALL until all is there?

use crate::sys;
use armento_model::Pid;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

/// A pipe, a stream's socket or a terminal that blocks, without a limit of time. KERNEL: pipe(7), socket(7)
/// (SO_SNDTIMEO), termios(3).
pub fn waits(pid: Pid, fd: i32) -> bool {
    let Ok(kind) = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).map(|m| m.file_type()) else {
        return false;
    };
    if !(kind.is_fifo() || kind.is_socket() || kind.is_char_device()) {
        return false;
    }
    let Ok(own) = sys::steal_fd(pid, fd) else {
        return false;
    };
    let own = own.as_raw_fd();
    if !sys::status_flags(own).is_ok_and(|f| f & libc::O_NONBLOCK == 0) {
        return false;
    }
    match (kind.is_socket(), kind.is_char_device()) {
        (true, _) => sys::is_stream(own) && !sys::limits_sends(own),
        (_, true) => sys::is_terminal(own),
        _ => true,
    }
}

/// A stream's socket that blocks, without a limit of time. KERNEL: socket(7) (SO_RCVTIMEO). `None`: he has no such
/// descriptor.
pub fn gathers(pid: Pid, fd: i32) -> Option<bool> {
    std::fs::symlink_metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
    let Ok(own) = sys::steal_fd(pid, fd) else {
        return Some(false);
    };
    let own = own.as_raw_fd();
    let blocks = sys::status_flags(own).is_ok_and(|f| f & libc::O_NONBLOCK == 0);
    Some(blocks && sys::is_stream(own) && !sys::limits_receives(own))
}
