//! The mount namespace of the machine, for processes that a service starts.
//!
//! `armento.service` has a namespace of its own: ProtectSystem= makes /usr read-only there, ProtectHome= hides /home,
//! PrivateTmp= has another /tmp, and what is mounted there is seen by the service alone. A file server must see what its
//! user sees, and the mount must be seen by everybody: both are therefore in the namespace of process 1. systemd-run(1)
//! would do the same for a machine with systemd; setns(2) does it also in a container and in a lab's node, at no cost a
//! process. It takes CAP_SYS_ADMIN and CAP_SYS_CHROOT, and CAP_SYS_PTRACE to look at process 1; the unit leaves these.

use crate::sys;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

/// Before: this process has one thread.
pub fn enter() -> io::Result<()> {
    let theirs = match fs::metadata("/proc/1/ns/mnt") {
        Ok(theirs) => theirs,
        // Not root's: such a daemon has no namespace of its own, unless a person made one.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(e) => return Err(e),
    };
    let ours = fs::metadata("/proc/self/ns/mnt")?;
    if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) {
        return Ok(());
    }
    sys::enter_mount_namespace(&File::open("/proc/1/ns/mnt")?)?;
    std::env::set_current_dir("/")
}
