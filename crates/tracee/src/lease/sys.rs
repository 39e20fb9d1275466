//! fcntl on leases and the signal that a description sends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

fn check(r: i32) -> io::Result<()> {
    match r {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The lease of a description: F_RDLCK, F_WRLCK or F_UNLCK. KERNEL: fcntl(2), F_GETLEASE.
pub fn lease(f: &File) -> i32 {
    // SAFETY: plain numbers on a live descriptor.
    unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETLEASE) }
}

/// KERNEL: fcntl(2), F_SETLEASE.
pub fn set_lease(f: &File, kind: i32) -> io::Result<()> {
    // SAFETY: plain numbers on a live descriptor.
    check(unsafe { libc::fcntl(f.as_raw_fd(), libc::F_SETLEASE, kind) })
}

/// Whether a process or thread gets the signals of a description. KERNEL: fcntl(2), F_GETOWN.
pub fn has_io_owner(f: &File) -> bool {
    // SAFETY: plain numbers on a live descriptor.
    unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETOWN) != 0 }
}

/// The thread that gets the signals of a description; 0: none. KERNEL: fcntl(2), F_SETOWN_EX, F_OWNER_TID.
pub fn set_io_owner(f: &File, tid: i32) -> io::Result<()> {
    const F_SETOWN_EX: i32 = 15;
    const F_OWNER_TID: i32 = 0;
    let owner = [F_OWNER_TID, tid];
    // SAFETY: a live descriptor and a live struct of two ints.
    check(unsafe { libc::fcntl(f.as_raw_fd(), F_SETOWN_EX, owner.as_ptr()) })
}

/// The signal that a description sends; 0: SIGIO. KERNEL: fcntl(2), F_SETSIG.
pub fn set_io_signal(f: &File, sig: i32) -> io::Result<()> {
    const F_SETSIG: i32 = 10;
    // SAFETY: plain numbers on a live descriptor.
    check(unsafe { libc::fcntl(f.as_raw_fd(), F_SETSIG, sig) })
}

/// Blocks these signals in the calling thread; the set of them.
pub fn block_signals(signals: &[i32]) -> io::Result<libc::sigset_t> {
    // SAFETY: a zeroed set that sigemptyset fills; all pointers are live.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        signals.iter().for_each(|s| {
            libc::sigaddset(&raw mut set, *s);
        });
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
            0 => Ok(set),
            e => Err(io::Error::from_raw_os_error(e)),
        }
    }
}

/// Takes one of these signals, which are blocked, or waits for it at most so long.
pub fn await_signal(set: &libc::sigset_t, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: live pointers; no siginfo is wanted.
    unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const limit) };
}

pub fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}
