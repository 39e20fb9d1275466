//! stat and statx as the kernel fills them.

use std::ffi::CStr;

pub fn statx(path: &CStr, mask: u32) -> Vec<u8> {
    let mut x = vec![0u8; size_of::<libc::statx>()];
    // SAFETY: a string that ends with a zero byte, and a buffer of the struct's size.
    let r = unsafe {
        libc::syscall(
            libc::SYS_statx,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            mask,
            x.as_mut_ptr(),
        )
    };
    assert_eq!(r, 0, "{path:?}");
    x
}

pub fn stat(path: &CStr) -> Vec<u8> {
    let mut x = vec![0u8; size_of::<libc::stat>()];
    // SAFETY: a string that ends with a zero byte, and a buffer of the struct's size.
    let r = unsafe { libc::syscall(libc::SYS_stat, path.as_ptr(), x.as_mut_ptr()) };
    assert_eq!(r, 0, "{path:?}");
    x
}
