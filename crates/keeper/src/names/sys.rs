//! inotify, getdents and the identity of directories.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

fn check(r: i64) -> io::Result<i64> {
    match r {
        -1 => Err(io::Error::last_os_error()),
        r => Ok(r),
    }
}

pub fn inotify() -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let fd = check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) }.into())?;
    // SAFETY: just returned by the kernel, not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Watches an open directory for changes of its entries and of itself; its number.
pub fn watch(inotify: &OwnedFd, dir: &File) -> io::Result<i32> {
    let path = CString::new(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    let mask = libc::IN_CREATE
        | libc::IN_DELETE
        | libc::IN_MOVED_FROM
        | libc::IN_MOVED_TO
        | libc::IN_ATTRIB
        | libc::IN_DELETE_SELF
        | libc::IN_MOVE_SELF
        | libc::IN_ONLYDIR;
    // SAFETY: a live descriptor and a string that ends with a zero byte.
    let wd = unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), path.as_ptr(), mask) };
    check(wd.into()).map(|wd| wd as i32)
}

/// Watches a file for changes of what stat(2) says. `reads`: they are some, too.
pub fn watch_file(inotify: &OwnedFd, file: &File, reads: bool) -> io::Result<i32> {
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut mask = libc::IN_ATTRIB | libc::IN_MODIFY | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
    if reads {
        mask |= libc::IN_ACCESS;
    }
    // SAFETY: a live descriptor and a string that ends with a zero byte.
    let wd = unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), path.as_ptr(), mask) };
    check(wd.into()).map(|wd| wd as i32)
}

/// Whether reading sets the time of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTimes {
    Never,
    /// KERNEL: mount(2), MS_RELATIME.
    Relative,
    Always,
}

pub fn access_times(file: &File) -> Option<AccessTimes> {
    let flags = mount_flags(file)?;
    Some(match flags {
        _ if flags & libc::ST_NOATIME != 0 => AccessTimes::Never,
        _ if flags & libc::ST_RELATIME != 0 => AccessTimes::Relative,
        _ => AccessTimes::Always,
    })
}

/// Opens an entry of a directory for reading, whatever lease others have on it.
pub fn open_file(dir: &File, name: &[u8]) -> io::Result<File> {
    let name = CString::new(name)?;
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: a live descriptor and a string that ends with a zero byte.
    let fd = check(unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags) }.into())?;
    // SAFETY: just returned by the kernel, not owned elsewhere.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// struct statx of an open file.
pub fn statx(file: &File, mask: u32) -> Option<Vec<u8>> {
    let mut x = vec![0u8; size_of::<libc::statx>()];
    // SAFETY: a live descriptor, an empty string, and a buffer of the struct's size.
    let r = unsafe {
        libc::syscall(
            libc::SYS_statx,
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            mask,
            x.as_mut_ptr(),
        )
    };
    (r == 0).then_some(x)
}

pub fn unwatch(inotify: &OwnedFd, wd: i32) {
    // SAFETY: plain numbers. A watch that is gone already is an error of no consequence.
    unsafe { libc::inotify_rm_watch(inotify.as_raw_fd(), wd) };
}

/// Bytes of events that wait. KERNEL: inotify(7), FIONREAD.
pub fn waiting(inotify: &OwnedFd) -> usize {
    let mut n: libc::c_int = 0;
    // SAFETY: FIONREAD writes an int.
    unsafe { libc::ioctl(inotify.as_raw_fd(), libc::FIONREAD, &raw mut n) };
    n.max(0) as usize
}

/// Reads events that wait; `None` if there are none.
pub fn read_events(inotify: &OwnedFd, buf: &mut [u8]) -> Option<usize> {
    // SAFETY: a live descriptor, and the kernel writes at most `buf.len()` bytes.
    let n = unsafe { libc::read(inotify.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    usize::try_from(n).ok().filter(|n| *n > 0)
}

/// Reads raw entries into `buf`; 0 at the end. KERNEL: getdents(2).
pub fn getdents(dir: &File, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: a live descriptor, and the kernel writes at most `buf.len()` bytes.
    let n = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            dir.as_raw_fd(),
            buf.as_mut_ptr(),
            buf.len(),
        )
    };
    check(n).map(|n| n as usize)
}

/// Opens a directory whose path has no symbolic link. `quiet`: its time of access stays (for its owner and root).
pub fn open_directory(path: &[u8], quiet: bool) -> io::Result<File> {
    let path = CString::new(path)?;
    // SAFETY: `open_how` is plain data for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let quiet = if quiet { libc::O_NOATIME } else { 0 };
    how.flags = (flags | quiet) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: a string that ends with a zero byte and a live struct of the given size.
    let fd = check(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    })?;
    // SAFETY: just returned by the kernel, not owned elsewhere.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// Whether a directory has an access control list, or may have one.
pub fn has_acl(dir: &File) -> bool {
    let name = c"system.posix_acl_access";
    // SAFETY: a live descriptor, a string that ends with a zero byte, no buffer.
    let n = unsafe { libc::fgetxattr(dir.as_raw_fd(), name.as_ptr(), std::ptr::null_mut(), 0) };
    let err = io::Error::last_os_error().raw_os_error();
    n >= 0 || !matches!(err, Some(libc::ENODATA | libc::EOPNOTSUPP))
}

/// Whether names in it are compared or stored in another way than byte by byte. KERNEL: ioctl_iflags(2):
/// FS_CASEFOLD_FL, FS_ENCRYPT_FL.
pub fn has_odd_names(dir: &File) -> bool {
    const ODD: libc::c_long = 0x4000_0000 | 0x800;
    let mut flags: libc::c_long = 0;
    armento_tracee::sys::ioctl(dir.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags).is_ok()
        && flags & ODD != 0
}

/// Whether links on its mount are followed. KERNEL: statfs(2), ST_NOSYMFOLLOW.
pub fn follows_links(dir: &File) -> bool {
    const ST_NOSYMFOLLOW: u64 = 0x2000;
    mount_flags(dir).is_some_and(|flags| flags & ST_NOSYMFOLLOW == 0)
}

/// KERNEL: statfs(2), f_flags.
fn mount_flags(file: &File) -> Option<u64> {
    // SAFETY: a zeroed struct that the kernel fills; the descriptor is live.
    unsafe {
        let mut v: libc::statvfs = std::mem::zeroed();
        (libc::fstatvfs(file.as_raw_fd(), &raw mut v) == 0).then_some(v.f_flag)
    }
}

/// Whether mounts have changed since this was asked last. KERNEL: proc_pid_mounts(5): POLLERR and POLLPRI.
pub fn mounts_changed(mountinfo: &File) -> bool {
    let mut p = libc::pollfd {
        fd: mountinfo.as_raw_fd(),
        events: libc::POLLPRI,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut p, 1, 0) > 0 }
}
