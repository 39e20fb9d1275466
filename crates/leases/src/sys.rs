//! fcntl on leases and the signal that a description sends.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;
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

/// KERNEL: the end of a lease clears its owner and signal (lease_modify); again, should the lease have ended before.
pub fn end_lease(f: &File) {
    let _ = set_lease(f, libc::F_UNLCK);
    let _ = set_io_owner(f, 0);
    let _ = set_io_signal(f, 0);
}

/// Whether it is open for reading only, and not by O_PATH. KERNEL: fcntl(2), F_GETFL.
pub fn only_reads(f: &File) -> bool {
    // SAFETY: plain numbers on a live descriptor.
    let flags = unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDONLY
}

/// The length of what [`map_count`] maps.
pub const PAGE: usize = 4096;

/// Maps the count with which a memfd of [`PAGE`] bytes starts, until [`unmap_count`].
pub fn map_count(page: &OwnedFd, writable: bool) -> io::Result<&'static AtomicU64> {
    let prot = if writable {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_READ
    };
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            prot,
            libc::MAP_SHARED,
            page.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a page of zeros, aligned, which is mapped as long as the reference is used; sealed, it does not shrink.
    Ok(unsafe { &*at.cast::<AtomicU64>() })
}

/// Before: nobody uses the count any more.
pub fn unmap_count(count: &'static AtomicU64) {
    // SAFETY: from `map_count`, and not used after this.
    unsafe { libc::munmap(std::ptr::from_ref(count).cast_mut().cast(), PAGE) };
}

/// The count at an address that is null or from [`map_count`].
pub fn count(at: *const AtomicU64) -> Option<&'static AtomicU64> {
    // SAFETY: pages that are published by their address are never unmapped.
    unsafe { at.as_ref() }
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

/// Takes one of these signals, which are blocked, or waits for it at most so long. Returns the descriptor that sent it.
/// KERNEL: fcntl(2), F_SETSIG: si_fd; SIGIO itself, when no signal could be queued, tells none.
pub fn await_signal(set: &libc::sigset_t, limit: Duration) -> Option<RawFd> {
    /// Offset of si_fd in siginfo_t, 64 bit: after si_signo, si_errno, si_code and si_band.
    const SI_FD: usize = 24;
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut info = [0u8; 128];
    // SAFETY: live pointers; siginfo_t has 128 bytes.
    let sig = unsafe { libc::sigtimedwait(set, info.as_mut_ptr().cast(), &raw const limit) };
    let code = i32::from_ne_bytes([info[8], info[9], info[10], info[11]]);
    let fd = i32::from_ne_bytes([
        info[SI_FD],
        info[SI_FD + 1],
        info[SI_FD + 2],
        info[SI_FD + 3],
    ]);
    // KERNEL: send_sigio_to_task: with F_SETSIG the code is one of POLL_IN to POLL_HUP.
    (sig > 0 && sig != libc::SIGIO && (1..=6).contains(&code)).then_some(fd)
}

pub fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}
