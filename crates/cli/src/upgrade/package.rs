//! The new program as an administrator has it: a Debian package, from which it is taken, or the program itself.
//!
//! From: `mod.rs`. What is taken is checked there as any program is: started once, and sent with its SHA-256.

use crate::out::Failure;
use armento_client::api::PROGRAM_MAX;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How every Debian package begins: deb(5).
const MAGIC: &[u8] = b"!<arch>\ndebian-binary";
/// What the package of Armento is called, and where its program is.
const NAME: &str = "armento";
const PROGRAM: &str = "usr/bin/armento";
/// More than any package of it has unpacked, bytes.
const UNPACKED_MAX: u64 = 4 * PROGRAM_MAX;

/// A program's file; one that was taken out of a package goes with this.
pub struct Program {
    pub path: PathBuf,
    taken: Option<PathBuf>,
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(dir) = &self.taken {
            // It is ours alone; what is left of it hinders nothing.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

fn bad(file: &Path, what: &str) -> Failure {
    Failure {
        message: format!("{}: {what}; nothing was changed", file.display()),
        hint: "give the package of Armento, or the program itself: armento farm upgrade --package FILE"
            .into(),
    }
}

/// The program that `file` is or has.
pub fn program_of(file: &Path) -> Result<Program, Failure> {
    let mut head = Vec::new();
    let opened = File::open(file).and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut head));
    opened.map_err(|e| bad(file, &e.to_string()))?;
    match head == MAGIC {
        true => taken(file),
        false => Ok(Program {
            path: file.to_owned(),
            taken: None,
        }),
    }
}

fn taken(file: &Path) -> Result<Program, Failure> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => bad(file, "dpkg-deb, which reads packages, is not here"),
        _ => bad(file, &e.to_string()),
    };
    let shown = Command::new("dpkg-deb")
        .args(["--showformat=${Package}", "--show"])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if !shown.status.success() {
        return Err(bad(file, "the package is damaged, or is none"));
    }
    let name = String::from_utf8_lossy(&shown.stdout).into_owned();
    if name != NAME {
        let name = armento_model::clean(&name);
        return Err(bad(file, &format!("this is the package `{name}`")));
    }
    let dir = std::env::temp_dir().join(format!("armento-package-{}", armento_link::random_hex(8)));
    DirBuilder::new().mode(0o700).create(&dir).map_err(failed)?;
    let program = Program {
        path: dir.join(NAME),
        taken: Some(dir),
    };
    unpack(file, &program.path).map_err(failed)?;
    Ok(program)
}

/// Writes the program of a package to `to`.
fn unpack(file: &Path, to: &Path) -> io::Result<()> {
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let from = reader.stdout.take();
    let found = from.map(|from| find(from.take(UNPACKED_MAX), to));
    // What follows the program is not read: the other side of the pipe is closed by now.
    let ended = reader.wait();
    let found = found.unwrap_or(Ok(false))?;
    match found {
        true => ended.map(drop),
        false => Err(io::Error::other(format!("it has no {PROGRAM}"))),
    }
}

/// Whether the archive has the program, which is written to `to`.
fn find(archive: impl Read, to: &Path) -> io::Result<bool> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let entry = entry?;
        let its = entry.path()?;
        if its.strip_prefix("./").unwrap_or(&its) != Path::new(PROGRAM) {
            continue;
        }
        if entry.size() > PROGRAM_MAX {
            let most = PROGRAM_MAX >> 20;
            return Err(io::Error::other(format!(
                "its program is larger than {most} MiB"
            )));
        }
        let size = entry.size();
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(to)?;
        let written = io::copy(&mut entry.take(PROGRAM_MAX), &mut out)?;
        return match written == size {
            true => Ok(true),
            false => Err(io::Error::other("the package ends in its program")),
        };
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, bytes) in [("./etc/armento/config.toml", &b"#"[..]), (name, bytes)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o755);
            tar.append_data(&mut header, path, bytes).expect("memory");
        }
        tar.into_inner().expect("memory")
    }

    #[test]
    fn the_program_is_found_in_an_archive() {
        let dir = std::env::temp_dir().join(format!("package-test-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a directory");
        let to = dir.join("armento");
        let whole = archive("./usr/bin/armento", b"program");
        assert!(find(&whole[..], &to).expect("found"));
        assert_eq!(std::fs::read(&to).expect("written"), b"program");
        assert!(!find(&archive("./usr/bin/other", b"x")[..], &to).expect("read"));
        let cut = find(&whole[..whole.len() / 3], &dir.join("cut"));
        assert!(!matches!(cut, Ok(true)), "{cut:?}");
        assert!(program_of(&to).is_ok_and(|p| p.path == to && p.taken.is_none()));
        std::fs::write(&to, [MAGIC, b"no more"].concat()).expect("written");
        let no = program_of(&to).err().expect("damaged").to_string();
        assert!(no.contains("nothing was changed"), "{no}");
        let _ = std::fs::remove_dir_all(&dir);
    }
}
