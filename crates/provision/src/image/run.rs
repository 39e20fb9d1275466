//! Programs that make images.

use crate::problem::{At, BootError};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines of a failed program that a user is shown.
const TAIL: usize = 12;
/// Words of programs that found no room. KERNEL: errno(3), ENOSPC, EDQUOT
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Bytes that are no room: a program writes in pieces of up to a MiB, and gives up at the first that does not fit.
const LITTLE: u64 = 1 << 20;

/// Runs a program to its end; its output goes to `log`, which stays when it fails.
pub fn run(command: &mut Command, package: &'static str, log: &Path) -> Result<(), BootError> {
    let out = File::create(log).at(log)?;
    let both = out.try_clone().at(log)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .stdout(both)
        .stderr(out)
        .status();
    let status = match status {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(BootError::Missing {
                program: package_program(package),
                package,
            });
        }
        status => status.at(Path::new(&name))?,
    };
    if status.success() {
        return Ok(());
    }
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    // The message itself may have found no room.
    let unsaid = said.trim().is_empty() && is_full(log.parent().unwrap_or(log));
    if unsaid || FULL.iter().any(|words| said.contains(words)) {
        return Err(BootError::Full(log.parent().unwrap_or(log).to_owned()));
    }
    let lines: Vec<&str> = said.lines().rev().take(TAIL).collect();
    Err(BootError::Failed {
        program: name,
        status: status.to_string(),
        tail: lines.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}

/// Whether the disk of a directory has no room for a few more lines, or for one more file.
fn is_full(dir: &Path) -> bool {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return false;
    };
    // Some file systems count no files.
    let no_file = disk.f_files > 0 && disk.f_favail == 0;
    no_file || disk.f_bavail.saturating_mul(disk.f_frsize) < LITTLE
}

/// The program that a package is installed for.
fn package_program(package: &'static str) -> &'static str {
    match package {
        "erofs-utils" => "mkfs.erofs",
        "coreutils" => "cp",
        other => other,
    }
}
