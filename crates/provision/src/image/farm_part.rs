//! What an image needs so that its node is one of the farm: the program, its units, and empty files that are each node's
//! own.

use crate::problem::{At, BootError};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

const UNIT: &str = include_str!("../../../../packaging/armento.service");
const TMPFILES: &str = include_str!("../../../../packaging/tmpfiles.d/armento.conf");
const BOOT_UNIT: &str = include_str!("../../../../packaging/armento-boot.service");
/// Units that nodes start.
const WANTED: [&str; 3] = [
    "armento.service",
    "armento-boot.service",
    "systemd-networkd.service",
];
/// Timers that change the root, which a node without a disk cannot.
const MASKED: [&str; 2] = ["apt-daily.timer", "apt-daily-upgrade.timer"];
const UNITS: &str = "usr/lib/systemd/system";

/// Adds or replaces the farm's part of a root.
pub fn add(root: &Path, armento: &Path) -> Result<(), BootError> {
    if !root.join(UNITS).is_dir() {
        return Err(BootError::refused(
            format!("it has no systemd ({UNITS} is missing)"),
            "install systemd-sysv and udev in it",
        ));
    }
    let program = root.join("usr/bin/armento");
    // A copy in place would change a program that an image's hard link shares.
    let _ = fs::remove_file(&program);
    fs::copy(armento, &program).at(&program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).at(&program)?;
    write(root, &format!("{UNITS}/armento.service"), UNIT)?;
    write(root, &format!("{UNITS}/armento-boot.service"), BOOT_UNIT)?;
    write(root, "usr/lib/tmpfiles.d/armento.conf", TMPFILES)?;
    write(root, "etc/fstab", "")?;
    write(root, "etc/machine-id", "")?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).at(&wants)?;
    for unit in WANTED {
        if root.join(UNITS).join(unit).exists() {
            link(&format!("/{UNITS}/{unit}"), &wants.join(unit))?;
        }
    }
    for unit in MASKED {
        if root.join(UNITS).join(unit).exists() {
            link("/dev/null", &root.join("etc/systemd/system").join(unit))?;
        }
    }
    let config = root.join("etc/armento");
    fs::create_dir_all(&config).at(&config)
}

fn write(root: &Path, path: &str, text: &str) -> Result<(), BootError> {
    let path = root.join(path);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).at(dir)?;
    }
    // Also where it is a link: /etc/machine-id may lead elsewhere.
    let _ = fs::remove_file(&path);
    fs::write(&path, text).at(&path)
}

fn link(to: &str, path: &Path) -> Result<(), BootError> {
    let _ = fs::remove_file(path);
    symlink(to, path).at(path)
}
