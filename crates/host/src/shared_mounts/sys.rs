//! The unsafe lines of the opener: it is forked, closes what it inherited, and becomes its user.

use crate::sys::check;
use std::io;
use std::os::fd::RawFd;

/// Runs `what` in a child, which ends afterwards. Before: this process has one thread.
pub fn fork_child(what: impl FnOnce()) -> io::Result<()> {
    // SAFETY: fork of a process with one thread.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        what();
        // SAFETY: plain number; what the parent has to write at its end is not written here.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

/// Closes all descriptors but standard error and this one; input and output are nothing.
pub fn keep_only(fd: RawFd) -> io::Result<()> {
    let fd = fd as u32;
    // SAFETY: plain numbers and a static string; this fresh process does not use the others.
    unsafe {
        let null = check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC).into())?;
        for standard in [0, 1] {
            check(libc::dup2(null as i32, standard).into())?;
        }
        if fd > 3 {
            check(libc::syscall(libc::SYS_close_range, 3, fd - 1, 0))?;
        }
        check(libc::syscall(libc::SYS_close_range, fd + 1, u32::MAX, 0))?;
        libc::prctl(libc::PR_SET_NAME, c"armento-opener".as_ptr(), 0, 0, 0);
        // With its host, however that ends.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
    Ok(())
}

/// Becomes a user for good, when root; no other process of that user may look into it. Before: this process has one thread.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: plain numbers, and as many groups as it says.
    unsafe {
        if libc::geteuid() == 0 {
            check(libc::setgroups(groups.len(), groups.as_ptr()).into())?;
            check(libc::setresgid(gid, gid, gid).into())?;
            check(libc::setresuid(uid, uid, uid).into())?;
        }
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into())?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        // KERNEL: prctl(2): a change of users clears it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0).into())?;
    }
    Ok(())
}
