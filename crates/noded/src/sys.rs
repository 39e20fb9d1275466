//! flock(2), user ids, the kernel's release, the time of day.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the lock of `file` without waiting; false when somebody else holds it. The kernel gives
/// it back when the file is closed, by whatever end.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a valid descriptor, no memory involved.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        e => Err(e),
    }
}

/// Takes the lock of `file`, waiting for it.
pub fn lock(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: a valid descriptor, no memory involved.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

/// As the kernel tells it to this process (its personality may ask for an older one).
pub fn kernel_release() -> String {
    // SAFETY: all zeros are valid arrays of characters.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the struct, each field with its zero; it cannot fail otherwise.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return String::new();
    }
    let release = name.release.iter().take_while(|c| **c != 0);
    release.map(|c| char::from(c.cast_unsigned())).collect()
}

pub fn euid() -> u32 {
    // SAFETY: cannot fail, no memory involved.
    unsafe { libc::geteuid() }
}

/// Kills a process.
/// Before: the caller has made sure that `pid` is the one it means.
pub fn kill(pid: i32) {
    if pid > 1 {
        // SAFETY: no memory involved; one process, not a group.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}
