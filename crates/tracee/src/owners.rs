//! The thread that a descriptor's signals are directed at. KERNEL: fcntl(2), F_SETOWN_EX, F_OWNER_TID; signal(7), SIGIO
//! and SIGURG.

use crate::sys::{self, SigInfo};
use crate::text;
use armento_model::{Pid, Tid};
use std::os::fd::AsRawFd;

/// Offset of si_fd in siginfo_t, for signals chosen with F_SETSIG.
const SI_FD: usize = 24;
/// KERNEL: POLL_IN to POLL_HUP, the si_code values of signals from a descriptor.
const POLL: std::ops::RangeInclusive<i32> = 1..=6;
/// Limit of descriptors examined; further ones of a process are ignored.
const LOOKED_AT: usize = 4096;

/// Whether a signal that thread `tid` of `pid` received comes from a descriptor that is directed at this thread alone.
pub fn for_thread(pid: Pid, tid: Tid, info: &SigInfo) -> bool {
    let word = |at: usize| i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default());
    let (sig, code) = (word(0), sys::siginfo_code(info));
    let io = [libc::SIGIO, libc::SIGURG].contains(&sig);
    if io && code == libc::SI_KERNEL {
        return any(pid, tid);
    }
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGCHLD,
        libc::SIGSYS,
    ];
    POLL.contains(&code) && !faults.contains(&sig) && owned(pid, word(SI_FD), tid)
}

/// For a signal without a descriptor number: whether any descriptor sends its signals to this thread.
fn any(pid: Pid, tid: Tid) -> bool {
    let all = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let number = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<i32>().ok();
    let mut numbers = all.into_iter().flatten().flatten().filter_map(number);
    numbers.by_ref().take(LOOKED_AT).any(|fd| {
        let sends = asynchronous(pid, fd) || is_socket(pid, fd);
        sends && owned(pid, fd, tid)
    })
}

fn asynchronous(pid: Pid, fd: i32) -> bool {
    let info = text::read(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:"));
    let flags = flags.and_then(|f| i32::from_str_radix(f.trim(), 8).ok());
    flags.is_some_and(|f| f & libc::O_ASYNC != 0)
}

fn is_socket(pid: Pid, fd: i32) -> bool {
    let to = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
    to.is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
}

fn owned(pid: Pid, fd: i32, tid: Tid) -> bool {
    let own = sys::steal_fd(pid, fd);
    own.is_ok_and(|own| sys::owner_thread(own.as_raw_fd()) == Some(tid))
}
