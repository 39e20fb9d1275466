//! The one call of these tests that is not safe.

/// Moves this thread into a network namespace without anything in it. KERNEL: unshare(2).
pub fn unshare_net() -> std::io::Result<()> {
    // SAFETY: no pointers; the thread shares nothing of the network by other means.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
