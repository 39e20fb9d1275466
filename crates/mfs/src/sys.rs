//! System calls that rustix does not offer: locks of descriptions, threads with their own mask, signals to threads.

use crate::protocol::Range;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Interrupts a thread that waits for a lock. libc has the first two realtime signals for itself.
const SIGNAL: i32 = 41;

fn check(r: i32) -> io::Result<i32> {
    match r {
        -1 => Err(io::Error::last_os_error()),
        r => Ok(r),
    }
}

/// The calling thread gets its own file mode creation mask (and working directory). KERNEL: unshare(2), CLONE_FS.
pub fn own_umask() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(libc::CLONE_FS) }).map(drop)
}

/// Sets the mask of this thread, after [`own_umask`].
pub fn umask(mask: u32) {
    // SAFETY: no pointers.
    unsafe { libc::umask(mask & 0o777) };
}

/// All descriptors that this process may have.
pub fn raise_descriptors() -> u64 {
    let mut l = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live struct, for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut l) != 0 {
            return 1024;
        }
        l.rlim_cur = l.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const l) != 0 {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut l);
        }
    }
    l.rlim_cur
}

/// A write beyond RLIMIT_FSIZE is `EFBIG` instead of the end of the process; and threads that wait for a lock can be
/// interrupted.
pub fn handle_signals() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, in a zeroed struct whose mask is empty; no flags, so that calls are
    // interrupted.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = nothing as extern "C" fn(i32) as libc::sighandler_t;
        libc::sigaction(SIGNAL, &raw const a, std::ptr::null_mut());
    }
}

pub fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Interrupts the call in which this thread of ours waits.
pub fn interrupt(tid: i32) {
    // SAFETY: no pointers; a thread that has ended is ESRCH.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, SIGNAL) };
}

pub fn effective_ids() -> (u32, u32) {
    // SAFETY: no arguments.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

fn flock_of(r: &Range) -> libc::flock {
    // KERNEL: fcntl(2): a length of 0 is until the end, however far.
    let open_end = r.end >= i64::MAX as u64;
    // SAFETY: plain numbers.
    let mut f: libc::flock = unsafe { std::mem::zeroed() };
    f.l_type = r.kind as i16;
    f.l_whence = libc::SEEK_SET as i16;
    f.l_start = r.start as i64;
    f.l_len = if open_end {
        0
    } else {
        (r.end - r.start + 1) as i64
    };
    f
}

/// A lock that belongs to the description. KERNEL: fcntl(2), F_OFD_SETLK, F_OFD_SETLKW.
pub fn set_lock(f: &File, r: &Range, wait: bool) -> io::Result<()> {
    let l = flock_of(r);
    let op = if wait {
        libc::F_OFD_SETLKW
    } else {
        libc::F_OFD_SETLK
    };
    // SAFETY: a live descriptor and a live struct.
    check(unsafe { libc::fcntl(f.as_raw_fd(), op, &raw const l) }).map(drop)
}

/// A lock in the way of this one. KERNEL: fcntl(2), F_OFD_GETLK.
pub fn conflict(f: &File, r: &Range) -> io::Result<Option<Range>> {
    let mut l = flock_of(r);
    // SAFETY: a live descriptor and a live struct.
    check(unsafe { libc::fcntl(f.as_raw_fd(), libc::F_OFD_GETLK, &raw mut l) })?;
    if l.l_type == libc::F_UNLCK as i16 {
        return Ok(None);
    }
    let start = l.l_start as u64;
    Ok(Some(Range {
        start,
        end: match l.l_len {
            0 => i64::MAX as u64,
            n => start + n as u64 - 1,
        },
        kind: l.l_type.into(),
        // A lock of a description has none.
        pid: l.l_pid.max(0) as u32,
    }))
}

/// KERNEL: flock(2).
pub fn flock(f: &File, kind: i32, wait: bool) -> io::Result<()> {
    let op = match kind {
        libc::F_RDLCK => libc::LOCK_SH,
        libc::F_WRLCK => libc::LOCK_EX,
        _ => libc::LOCK_UN,
    };
    let op = if wait { op } else { op | libc::LOCK_NB };
    // SAFETY: plain numbers on a live descriptor.
    check(unsafe { libc::flock(f.as_raw_fd(), op) }).map(drop)
}

/// KERNEL: truncate(2), which asks for the right to write and for no descriptor.
pub fn truncate(path: &str, size: u64) -> io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    // SAFETY: a live string that ends with zero.
    check(unsafe { libc::truncate(path.as_ptr(), size as i64) }).map(drop)
}
