//! System calls that no safe crate of this tree offers.

use armento_model::{Pid, Tid};
use std::cmp::Ordering;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// KERNEL: include/uapi/linux/kcmp.h.
const KCMP_FILE: i32 = 0;
pub const KCMP_FILES: i32 = 2;
pub const KCMP_FS: i32 = 3;
const KCMP_EPOLL_TFD: i32 = 7;

fn kcmp(a: Pid, b: Pid, what: i32, x: u64, y: u64) -> io::Result<Ordering> {
    // SAFETY: plain numbers, or for KCMP_EPOLL_TFD the address of a live kcmp_epoll_slot.
    match unsafe { libc::syscall(libc::SYS_kcmp, a, b, what, x, y) } {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        3 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The order of two descriptors (process, number) by their open file description. KERNEL: kcmp(2), KCMP_FILE. One that was
/// closed meanwhile, by a process that runs, is the smaller one.
pub fn compare_files(a: (Pid, i32), b: (Pid, i32)) -> io::Result<Ordering> {
    match kcmp(a.0, b.0, KCMP_FILE, a.1 as u64, b.1 as u64) {
        Err(e) if e.raw_os_error() == Some(libc::EBADF) => Ok(Ordering::Less),
        other => other,
    }
}

/// The order of two tasks by their table of descriptors (KCMP_FILES), or by their working directory and umask (KCMP_FS).
/// A task that has ended meanwhile has none, and counts as the smaller one.
pub fn compare(a: Tid, b: Tid, what: i32) -> Ordering {
    kcmp(a, b, what, 0, 0).unwrap_or(Ordering::Less)
}

/// Whether the entry `target` of the epoll instance `epoll` leads to what the process has as `target` now.
pub fn watches(pid: Pid, epoll: i32, target: i32) -> io::Result<bool> {
    /// KERNEL: struct kcmp_epoll_slot: the descriptor of the instance, the number of the entry, and which of those
    /// with this number.
    #[repr(C)]
    struct Slot {
        epoll: u32,
        target: u32,
        nth: u32,
    }
    let slot = Slot {
        epoll: epoll as u32,
        target: target as u32,
        nth: 0,
    };
    let at = &raw const slot as u64;
    match kcmp(pid, pid, KCMP_EPOLL_TFD, target as u64, at) {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        other => other.map(|o| o == Ordering::Equal),
    }
}

/// A copy of another process's descriptor: the same open file description. KERNEL: pidfd_getfd(2), Linux 5.6; asks for
/// the rights of PTRACE_ATTACH.
pub fn copy_descriptor(pid: Pid, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; both descriptors are new and have no other owner.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        let process = OwnedFd::from_raw_fd(process);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) as i32;
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Bytes that can be read at once: of a pipe or a stream all, of other sockets the first message's. KERNEL: FIONREAD.
pub fn waiting(fd: BorrowedFd) -> io::Result<usize> {
    let mut n: i32 = 0;
    // SAFETY: the kernel writes one int.
    match unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut n) } {
        0 => Ok(n.max(0) as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// KERNEL: include/linux/fcntl.h, MAX_HANDLE_SZ; AT_HANDLE_FID, Linux 6.5: a handle to compare, of any file system.
const HANDLE_MAX: usize = 128;
const AT_HANDLE_FID: i32 = 0x200;

/// KERNEL: struct file_handle: bytes of the handle, its type, the handle.
#[repr(C)]
struct Handle {
    bytes: u32,
    sort: i32,
    handle: [u8; HANDLE_MAX],
}

/// The handle of a file: type and bytes. KERNEL: name_to_handle_at(2).
pub fn handle(path: &Path) -> io::Result<(i32, Vec<u8>)> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    for flags in [AT_HANDLE_FID, 0] {
        let mut found = Handle {
            bytes: HANDLE_MAX as u32,
            sort: 0,
            handle: [0; HANDLE_MAX],
        };
        let mut mount: i32 = 0;
        // SAFETY: a name that ends with zero, room for the largest handle, an int.
        let r = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                name.as_ptr(),
                &raw mut found,
                &raw mut mount,
                flags,
            )
        };
        if r == 0 {
            let length = (found.bytes as usize).min(HANDLE_MAX);
            return Ok((found.sort, found.handle[..length].to_vec()));
        }
    }
    Err(io::Error::last_os_error())
}

/// Opens a file by its handle, on a mount of its file system, without using it (O_PATH). KERNEL: open_by_handle_at(2); asks for
/// CAP_DAC_READ_SEARCH.
pub fn open_handle(mount: BorrowedFd, sort: i32, handle: &[u8]) -> io::Result<OwnedFd> {
    let mut wanted = Handle {
        bytes: handle.len() as u32,
        sort,
        handle: [0; HANDLE_MAX],
    };
    let room = wanted.handle.get_mut(..handle.len());
    room.ok_or(io::ErrorKind::InvalidData)?
        .copy_from_slice(handle);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the kernel reads the handle; the new descriptor has no other owner.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw const wanted,
            flags,
        );
        match fd {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}

/// An option of a socket that is an int.
pub fn socket_option(fd: BorrowedFd, option: i32) -> io::Result<i32> {
    let mut value: i32 = 0;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to a live int.
    let r = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    match r {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A socket for questions about sockets. KERNEL: sock_diag(7).
pub fn diagnosis() -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers; the descriptor is new and has no other owner.
    unsafe {
        let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(fd))
    }
}
