//! Which calls the kernel issues again.

/// The kernel's own "issue it again" range: ERESTARTSYS … ERESTART_RESTARTBLOCK.
pub fn is_restart(ret: i64) -> bool {
    (-516..=-512).contains(&ret)
}

/// Calls that the host sees first, and that may then wait in the body's own kernel.
pub fn may_wait_here(nr: i64) -> bool {
    matches!(nr, libc::SYS_restart_syscall | libc::SYS_futex)
}
