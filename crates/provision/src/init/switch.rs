//! From the initramfs to the root: its memory is given back, and systemd takes the place of this process.

use super::root::NEW;
use rustix::mount::mount_move;
use rustix::process::{chdir, chroot};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// First programs of Linux systems.
const INITS: [&str; 3] = [
    "/usr/lib/systemd/systemd",
    "/lib/systemd/systemd",
    "/sbin/init",
];

/// Becomes the root's first process. Returns only what went wrong.
///
/// KERNEL: Documentation/filesystems/ramfs-rootfs-initramfs.rst: rootfs cannot be unmounted; it is emptied, and the new root
/// is moved over it.
pub fn switch() -> String {
    for dir in ["/dev", "/proc", "/sys"] {
        let to = format!("{NEW}{dir}");
        if let Err(e) = fs::create_dir_all(&to) {
            return format!("{to}: {e}");
        }
        if let Err(e) = mount_move(dir, to.as_str()) {
            return format!("moving {dir}: {e}");
        }
    }
    // The relay's program is open and stays until it ends.
    let _ = fs::remove_dir_all("/modules");
    let _ = fs::remove_file("/init");
    let moved = chdir(NEW)
        .and_then(|()| mount_move(".", "/"))
        .and_then(|()| chroot("."))
        .and_then(|()| chdir("/"));
    if let Err(e) = moved {
        return format!("changing to the root: {e}");
    }
    let Some(init) = INITS.iter().find(|p| Path::new(p).exists()) else {
        return "the root has no first program (systemd)".into();
    };
    let e = Command::new(init).arg0("/sbin/init").exec();
    format!("{init}: {e}")
}
