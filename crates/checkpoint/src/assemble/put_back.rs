//! Files whose content the checkpoint keeps.

use super::error::AssembleError;
use super::how::{Contents, How};
use crate::home::{Home, Kind, OpenFile, difference};
use rustix::fs::{Mode, OFlags, open};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Gives files that are missing or differ their kept content, each at once: written beside, then renamed.
pub fn all(home: &Home, how: &How) -> Result<(), AssembleError> {
    let Some(contents) = how.contents.filter(|_| how.put_back) else {
        return Ok(());
    };
    let mut done = BTreeSet::new();
    for d in &home.descriptions {
        if let Kind::File(
            file @ OpenFile {
                kept: Some(key),
                deleted: false,
                ..
            },
        ) = &d.kind
            && done.insert(*key)
            && difference(file.path.path(), &file.identity).is_some()
        {
            one(file, *key, contents).map_err(|source| AssembleError::PutBack {
                path: file.path.to_string(),
                source,
            })?;
        }
    }
    Ok(())
}

fn mode(file: &OpenFile) -> Mode {
    Mode::from_raw_mode(file.identity.mode & 0o777)
}

fn one(file: &OpenFile, key: u32, contents: Contents) -> io::Result<()> {
    let target = file.path.path();
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!(".{}.part", std::process::id()));
    let at: PathBuf = target.with_file_name(name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = File::from(open(&at, flags, mode(file))?);
    let moved = write(&made, key, contents).and_then(|()| {
        rustix::fs::fchmod(&made, mode(file))?;
        fs::rename(&at, target)
    });
    if moved.is_err() {
        drop(fs::remove_file(&at));
    }
    moved
}

fn write(mut to: &File, key: u32, contents: Contents) -> io::Result<()> {
    io::copy(&mut contents(key)?, &mut to).map(drop)
}

/// A file without a name, in the directory where it had one. KERNEL: open(2), O_TMPFILE; where a file system has none, the
/// name is removed at once.
pub fn without_name(file: &OpenFile, key: u32, contents: Contents) -> io::Result<OwnedFd> {
    let dir = file.path.path().parent().unwrap_or(Path::new("/"));
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let made = match open(dir, flags | OFlags::TMPFILE, mode(file)) {
        Ok(made) => made,
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let at = dir.join(format!(".armento.{}.{key}", std::process::id()));
            let made = open(&at, flags | OFlags::CREATE | OFlags::EXCL, mode(file))?;
            fs::remove_file(&at)?;
            made
        }
        Err(e) => return Err(e.into()),
    };
    let made = File::from(made);
    write(&made, key, contents)?;
    Ok(made.into())
}
