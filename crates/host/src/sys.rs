//! The unsafe lines of the host: files, a descriptor over a socket, limits. Those that isolate guests are in
//! `isolation/sys.rs`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The error of a failed system call.
pub fn check(r: i64) -> io::Result<i64> {
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(r)
    }
}

/// May files in this directory be mapped to be executed? KERNEL: statfs(2), ST_NOEXEC.
pub fn may_execute(dir: &File) -> bool {
    // SAFETY: a zeroed struct that the kernel fills; the descriptor is live.
    unsafe {
        let mut s: libc::statvfs = std::mem::zeroed();
        libc::fstatvfs(dir.as_raw_fd(), &raw mut s) == 0 && s.f_flag & libc::ST_NOEXEC == 0
    }
}

/// Takes the file's lock if it is free; the kernel releases it when the file is closed.
pub fn try_lock(f: &File) -> bool {
    // SAFETY: plain numbers on a live descriptor.
    unsafe { libc::flock(f.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Room for `len` bytes, which are zeros.
pub fn reserve(f: &File, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: plain numbers on a live descriptor.
    check(unsafe { libc::fallocate(f.as_raw_fd(), 0, 0, len as i64) }.into()).map(|_| ())
}

/// Sends one descriptor over the socket; the body receives it with an injected recvmsg.
pub fn send_fd(sock: RawFd, fd: RawFd) -> io::Result<()> {
    let mut byte = 1u8;
    let mut iov = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 4];
    // SAFETY: msghdr points to live locals; the control buffer has room for one descriptor.
    unsafe {
        let mut m: libc::msghdr = std::mem::zeroed();
        m.msg_iov = &mut iov;
        m.msg_iovlen = 1;
        m.msg_control = control.as_mut_ptr().cast();
        m.msg_controllen = libc::CMSG_SPACE(4) as _;
        let c = libc::CMSG_FIRSTHDR(&m);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as _;
        std::ptr::copy_nonoverlapping((&raw const fd).cast::<u8>(), libc::CMSG_DATA(c), 4);
        check(libc::sendmsg(sock, &m, 0) as i64).map(drop)
    }
}

/// Sets this process's name; the path that it was started by is another.
pub fn is_called(name: &std::ffi::CStr) {
    // SAFETY: a string with its zero, which the kernel reads.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Ends this process after that long, rounded up; zero takes it back.
pub fn ends_after(limit: std::time::Duration) {
    let seconds = limit.as_millis().div_ceil(1000);
    // SAFETY: no pointers. The default action of its signal is the end.
    unsafe { libc::alarm(u32::try_from(seconds).unwrap_or(u32::MAX)) };
}

/// Gives a thread its niceness; lowering it needs a privilege.
pub fn set_nice(tid: i32, nice: i32) {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) };
}

/// Sets a limit of another process; what exceeds our own is cut to it.
pub fn set_limit(pid: i32, resource: u32, soft: u64, hard: u64) {
    let mut now = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: live structs.
    unsafe {
        libc::prlimit64(pid, resource as _, std::ptr::null(), &mut now);
        let hard = hard.min(now.rlim_max);
        let new = libc::rlimit64 {
            rlim_cur: soft.min(hard),
            rlim_max: hard,
        };
        libc::prlimit64(pid, resource as _, &new, std::ptr::null_mut());
    }
}

/// Random bytes of this kernel. KERNEL: getrandom(2): up to 256 are never fewer; more may be cut by a signal.
pub fn random(len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; len];
    for piece in bytes.chunks_mut(256) {
        // SAFETY: the kernel writes at most `piece.len()` bytes.
        let n = unsafe { libc::getrandom(piece.as_mut_ptr().cast(), piece.len(), 0) };
        if n != piece.len() as isize {
            return None;
        }
    }
    Some(bytes)
}
