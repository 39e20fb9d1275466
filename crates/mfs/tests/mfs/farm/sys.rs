//! Another user for this process, and a stopped child.

use std::ffi::CStr;
use std::io;

/// All groups of a user, as the group database has them; only its own number if it has no name.
fn groups_of(uid: u32) -> (u32, Vec<u32>) {
    // SAFETY: getpwuid's result is used before another call of this single-threaded start; the list is as long as said.
    unsafe {
        let pw = libc::getpwuid(uid);
        if pw.is_null() {
            return (uid, vec![uid]);
        }
        let (name, gid) = (CStr::from_ptr((*pw).pw_name).to_owned(), (*pw).pw_gid);
        let mut list = vec![0; 256];
        let mut n = list.len() as i32;
        if libc::getgrouplist(name.as_ptr(), gid, list.as_mut_ptr(), &raw mut n) < 0 {
            return (gid, vec![gid]);
        }
        list.truncate(n as usize);
        (gid, list)
    }
}

/// Before: this process has one thread, or its other threads do nothing.
pub fn become_user(uid: u32) -> io::Result<()> {
    if uid == 0 {
        return Ok(());
    }
    let (gid, groups) = groups_of(uid);
    // SAFETY: a live list with its length; plain numbers.
    let ok = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
    };
    if ok {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits until all threads of a child have stopped, or it has ended. kill(2) does not wait for that.
pub fn await_stopped(pid: u32) -> io::Result<()> {
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: zeros are a valid siginfo_t, which is written to; the child is not reaped.
    let r = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid, &raw mut info, what)
    };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
