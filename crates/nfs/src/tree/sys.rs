//! System calls that rustix does not offer: handles of files, identities of single threads.

use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// KERNEL: open_by_handle_at(2): MAX_HANDLE_SZ.
const KERNEL_MAX: usize = 128;

/// struct file_handle with room.
#[repr(C)]
struct Raw {
    bytes: u32,
    kind: i32,
    data: [u8; KERNEL_MAX],
}

/// The kernel's name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelHandle {
    pub kind: i32,
    pub data: Vec<u8>,
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// KERNEL: name_to_handle_at(2), of the descriptor itself.
pub fn handle_of(fd: BorrowedFd) -> Result<KernelHandle, Errno> {
    let mut raw = Raw {
        bytes: KERNEL_MAX as u32,
        kind: 0,
        data: [0; KERNEL_MAX],
    };
    let mut mount = 0;
    // SAFETY: an empty path that ends with zero; a live struct with as much room as it says.
    let r = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut raw,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if r != 0 {
        return Err(last());
    }
    let len = (raw.bytes as usize).min(KERNEL_MAX);
    Ok(KernelHandle {
        kind: raw.kind,
        data: raw.data[..len].to_vec(),
    })
}

/// KERNEL: open_by_handle_at(2); only a path to the file, nothing is opened. Before: root.
pub fn open_handle(mount: BorrowedFd, handle: &KernelHandle) -> Result<OwnedFd, Errno> {
    let mut raw = Raw {
        bytes: handle.data.len() as u32,
        kind: handle.kind,
        data: [0; KERNEL_MAX],
    };
    let room = raw.data.get_mut(..handle.data.len()).ok_or(Errno::INVAL)?;
    room.copy_from_slice(&handle.data);
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a live struct that is as long as it says; the descriptor that returns is owned here alone.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut raw,
            flags,
        );
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(last()),
        }
    }
}

/// Whether this thread, as the user that it is now, may do this with the file. KERNEL: faccessat2(2), Linux 5.8.
pub fn may(fd: BorrowedFd, mode: i32) -> Result<(), Errno> {
    // SAFETY: an empty path that ends with zero.
    let r = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH | libc::AT_EACCESS,
        )
    };
    if r == 0 { Ok(()) } else { Err(last()) }
}

/// This thread's user for files alone, and with it the kernel's permissions to pass over modes. KERNEL: setfsuid(2),
/// capabilities(7): they are lost when the user becomes another than root, and return with root.
/// `check`: whether to look if it worked.
pub fn set_file_user(uid: u32, check: bool) -> Result<(), Errno> {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    if !check {
        return Ok(());
    }
    // SAFETY: no pointers; a call with no user only says which one it is.
    let now = unsafe { libc::syscall(libc::SYS_setfsuid, -1) };
    if now as u32 == uid {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// This thread's groups for files. KERNEL: setfsgid(2), setgroups(2): the call itself, since the C library changes all
/// threads.
pub fn set_file_groups(gid: u32, groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: a live list with its length.
    let (r, now) = unsafe {
        let r = libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
        libc::syscall(libc::SYS_setfsgid, gid);
        (r, libc::syscall(libc::SYS_setfsgid, -1))
    };
    if r == 0 && now as u32 == gid {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// The calling thread gets its own file mode creation mask, which is empty. KERNEL: unshare(2), CLONE_FS.
pub fn own_umask() -> std::io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: no pointers.
    unsafe { libc::umask(0) };
    Ok(())
}

/// The file behind a descriptor as a path, for calls that take no descriptor of `O_PATH`. KERNEL: proc(5).
pub fn proc_path(fd: BorrowedFd) -> CString {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    CString::new(path).unwrap_or_default()
}
