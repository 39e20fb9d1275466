//! The unsafe lines: a file's handle.

use std::os::fd::{AsRawFd, BorrowedFd};

/// KERNEL: open_by_handle_at(2), MAX_HANDLE_SZ.
const HANDLE_MAX: usize = 128;
/// KERNEL: name_to_handle_at(2), since Linux 6.5: a handle that only tells files apart, which more file systems have.
const AT_HANDLE_FID: i32 = 0x200;

/// struct file_handle with room for any.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_MAX],
}

/// The handle by which the file system finds the file again: its type, then its bytes. Empty where there is none.
pub fn handle(file: BorrowedFd<'_>) -> Vec<u8> {
    let ask = |flags: i32| {
        let mut h = Handle {
            bytes: HANDLE_MAX as u32,
            kind: 0,
            handle: [0; HANDLE_MAX],
        };
        let mut mount = 0i32;
        // SAFETY: a live descriptor, an empty string, a struct with as much room as it says, and a live int.
        let r = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                &raw mut h,
                &raw mut mount,
                libc::AT_EMPTY_PATH | flags,
            )
        };
        let bytes = h.handle.get(..h.bytes as usize)?;
        (r == 0).then(|| [&h.kind.to_le_bytes(), bytes].concat())
    };
    ask(0).or_else(|| ask(AT_HANDLE_FID)).unwrap_or_default()
}
