//! flock(2), users and their ids, the kernel's release, the time of day.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Room for the texts of one user, bytes; getpwnam(3) suggests 1024 here.
const PASSWD_MAX: usize = 16 << 10;

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

/// The number of a user of this machine; `None` also when that cannot be found out now.
pub fn uid_of(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: all zeros are a valid passwd: null pointers and numbers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut text = vec![0 as libc::c_char; PASSWD_MAX];
    let mut found = std::ptr::null_mut();
    // SAFETY: every pointer is valid for the call; the library writes at most `text.len()` bytes of text.
    let rc = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &raw mut entry,
            text.as_mut_ptr(),
            text.len(),
            &raw mut found,
        )
    };
    (rc == 0 && !found.is_null()).then_some(entry.pw_uid)
}

/// Kills a process.
/// Before: the caller has made sure that `pid` is the one it means.
pub fn kill(pid: i32) {
    if pid > 1 {
        // SAFETY: no memory involved; one process, not a group.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}
