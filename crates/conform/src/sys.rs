//! The few system calls that std does not offer.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits with which every guest starts, so that the harness causes no difference.
const LIMITS: [(libc::__rlimit_resource_t, u64, u64); 3] = [
    // A guest that aborts on purpose must not leave a core file.
    (libc::RLIMIT_CORE, 0, 0),
    // The usual soft limit of a login shell, and room to raise it.
    (libc::RLIMIT_NOFILE, 1024, 4096),
    (libc::RLIMIT_STACK, 8 << 20, 64 << 20),
];

/// A new session with the same limits, umask, signals and parentage rules for every guest.
/// With `terminal`, standard input becomes its controlling terminal.
pub fn prepare(command: &mut Command, terminal: bool) {
    let setup = move || -> io::Result<()> {
        // SAFETY: plain system calls without pointers into shared state; safe after fork.
        unsafe {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            if terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::umask(0o022);
            // The parent process may ignore some of them (`nohup`, `&` in a script), and the C library changes its own,
            // 32 and 33, with our first thread and with posix_spawn. KILL and STOP cannot be changed, which is fine.
            let default = [0u64; 4];
            for sig in 1..=64 {
                libc::syscall(libc::SYS_rt_sigaction, sig, &default, 0, 8);
            }
            for (what, soft, hard) in LIMITS {
                let mut limit = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                if libc::getrlimit(what, &mut limit) < 0 {
                    return Err(io::Error::last_os_error());
                }
                limit.rlim_max = limit.rlim_max.min(hard);
                limit.rlim_cur = limit.rlim_max.min(soft);
                if libc::setrlimit(what, &limit) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes async-signal-safe calls and does not allocate.
    unsafe { command.pre_exec(setup) };
}

/// Opens a terminal of 24 lines and 80 columns: our end, the guest's end.
pub fn openpty() -> io::Result<(File, OwnedFd)> {
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both numbers and the size live across the call; name and attributes may be null.
    let rc = unsafe {
        libc::openpty(
            &mut ours,
            &mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &size,
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    for fd in [ours, theirs] {
        // SAFETY: fcntl on descriptors that were just opened.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: both descriptors are open and owned by no other value.
    Ok(unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) })
}

/// A descriptor that becomes readable when the child ends.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Which of `fds` can be read (or have ended), after at most `wait_ms`.
pub fn readable(fds: &[BorrowedFd<'_>], wait_ms: u64) -> io::Result<Vec<bool>> {
    let mut list: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let wait = i32::try_from(wait_ms).unwrap_or(i32::MAX);
    // SAFETY: the array lives across the call and its length is right.
    let rc = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, wait) };
    if rc < 0 {
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
        return Ok(vec![false; fds.len()]);
    }
    Ok(list.iter().map(|entry| entry.revents != 0).collect())
}

/// Makes orphans of our children our children, so that none is missed.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reaps every child that has ended.
pub fn reap() {
    loop {
        let mut status = 0;
        // SAFETY: status lives across the call.
        if unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } <= 0 {
            return;
        }
    }
}

/// Kills a process of ours.
pub fn kill(pid: u32) {
    // SAFETY: no pointers. The process may be gone, which is as good.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

/// Sends SIGTERM to a process of ours.
pub fn terminate(pid: u32) {
    // SAFETY: no pointers. The process may be gone, which is as good.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
}

/// CLOCK_MONOTONIC, ms.
pub fn monotonic_ms() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills one timespec; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

pub fn user() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

pub fn is_root() -> bool {
    user() == 0
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From now on Ctrl-C and `kill` only set a flag, so that labs and guests are cleaned up.
pub fn catch_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
