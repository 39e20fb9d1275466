//! Whether blocking I/O on another process's descriptor waits for the full length: a write, or a read with MSG_WAITALL.

use crate::sys;
use armento_model::Pid;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;

/// Whether it is a pipe, a stream socket or a terminal in blocking mode without a timeout. KERNEL: pipe(7), socket(7)
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

/// Whether it is a stream socket in blocking mode without a timeout. KERNEL: socket(7) (SO_RCVTIMEO). `None`: the
/// process has no such descriptor.
pub fn gathers(pid: Pid, fd: i32) -> Option<bool> {
    std::fs::symlink_metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
    let Ok(own) = sys::steal_fd(pid, fd) else {
        return Some(false);
    };
    let own = own.as_raw_fd();
    let blocks = sys::status_flags(own).is_ok_and(|f| f & libc::O_NONBLOCK == 0);
    Some(blocks && sys::is_stream(own) && !sys::limits_receives(own))
}
