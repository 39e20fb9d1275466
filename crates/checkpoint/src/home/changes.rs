//! Files that are no longer as they were when a checkpoint was made.

use super::kinds::{Kind, OpenFile};
use super::types::Home;
use super::values::{Bytes, Identity};
use ring::digest::{Context, SHA256};
use rustix::fs::{Mode, OFlags, Stat, ioctl_ficlone, open, stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

pub fn identity(found: &Stat) -> Identity {
    let ns = |s: i64, ns: u64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Identity {
        dev: found.st_dev,
        ino: found.st_ino,
        size: found.st_size as u64,
        mode: found.st_mode,
        mtime_ns: ns(found.st_mtime, found.st_mtime_nsec),
        ctime_ns: ns(found.st_ctime, found.st_ctime_nsec),
        sha256: None,
    }
}

/// How a file differs from what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    Missing,
    Unreadable(String),
    Size {
        then: u64,
        now: u64,
    },
    Content,
    /// Written since, or another file, of the same size; the content was not recorded.
    Perhaps,
}

/// The end of a sentence that begins with the name of the file.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Missing => f.write_str("is missing"),
            Difference::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Difference::Size { then, now } => write!(f, "has {now} bytes, where it had {then}"),
            Difference::Content => f.write_str("has another content"),
            Difference::Perhaps => f.write_str("was written or replaced since"),
        }
    }
}

/// Another inode with the same content is the same file, where the content is known; a time alone is no difference then.
pub fn difference(path: &Path, then: &Identity) -> Option<Difference> {
    let now = match stat(path) {
        Ok(found) => identity(&found),
        Err(Errno::NOENT) => return Some(Difference::Missing),
        Err(e) => return Some(Difference::Unreadable(e.to_string())),
    };
    if now.size != then.size {
        return Some(Difference::Size {
            then: then.size,
            now: now.size,
        });
    }
    if now.mtime_ns == then.mtime_ns && (now.dev, now.ino) == (then.dev, then.ino) {
        return None;
    }
    match then.sha256 {
        Some(hash) if sha256(path).is_ok_and(|now| now == hash) => None,
        Some(_) => Some(Difference::Content),
        None => Some(Difference::Perhaps),
    }
}

/// All of them, as sentences.
pub fn changed(home: &Home) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<&Bytes> = BTreeSet::new();
    let programs = home
        .processes
        .iter()
        .map(|p| (&p.exe.path, &p.exe.identity));
    let files = open_files(home).filter(|f| !f.deleted);
    for (path, then) in programs.chain(files.map(|f| (&f.path, &f.identity))) {
        if seen.insert(path)
            && let Some(what) = difference(path.path(), then)
        {
            found.push(format!("{path} {what}"));
        }
    }
    found
}

fn open_files(home: &Home) -> impl Iterator<Item = &OpenFile> {
    home.descriptions.iter().filter_map(|d| match &d.kind {
        Kind::File(file) => Some(file),
        _ => None,
    })
}

/// Reads the contents of programs and open files, so that a restart can tell a change from a copy. A file of more than
/// `size_max` bytes, or one that has changed meanwhile, is left without.
pub fn record_hashes(home: &mut Home, size_max: u64) {
    let programs = home
        .processes
        .iter_mut()
        .map(|p| (&p.exe.path, &mut p.exe.identity));
    let files = home
        .descriptions
        .iter_mut()
        .filter_map(|d| match &mut d.kind {
            Kind::File(f) if !f.deleted => Some((&f.path, &mut f.identity)),
            _ => None,
        });
    for (path, then) in programs.chain(files) {
        let unchanged = |then: &Identity| {
            let now = stat(path.path()).map(|found| identity(&found));
            now.is_ok_and(|now| now == *then)
        };
        if then.size <= size_max
            && unchanged(then)
            && let Ok(hash) = sha256(path.path())
            && unchanged(then)
        {
            then.sha256 = Some(hash);
        }
    }
}

/// Bytes of files that are copied while processes stand still: some 50 ms at a gigabyte a second.
const COPIED_MAX: u64 = 64 << 20;

/// A copy without a name, beside the file so that it may share the file's extents; otherwise in the directory for temporary
/// files. KERNEL: ioctl_ficlone(2), open(2) of O_TMPFILE.
fn copy_of(path: &Path, left: &mut u64) -> io::Result<File> {
    let mut from = File::open(path)?;
    let name = fs::read_link(path)?;
    let temporary = std::env::temp_dir();
    let beside = name.parent().unwrap_or(&temporary);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut to = File::from(match open(beside, flags, mode) {
        Ok(to) => to,
        Err(_) => open(&temporary, flags, mode)?,
    });
    if ioctl_ficlone(&to, &from).is_err() {
        let size = from.metadata()?.len();
        if size > *left {
            return Ok(from);
        }
        *left -= size;
        io::copy(&mut from, &mut to)?;
    }
    to.rewind()?;
    Ok(to)
}

/// Of a regular file.
pub fn sha256(path: &Path) -> io::Result<[u8; 32]> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => context.update(&buffer[..n]),
        }
    }
    let digest = context.finish();
    digest
        .as_ref()
        .try_into()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

impl Home {
    /// Contents of the files that are kept, as they are now: copies that later writes do not reach. Before: the processes
    /// stand still, so what is copied has a bound, [`COPIED_MAX`]; a file beyond it is the file itself, of which
    /// [`crate::format::Writer::file`] takes no more than it had. A file system with shared extents (btrfs, XFS) copies nothing.
    pub fn copies_of_files(&self) -> io::Result<Vec<(u32, File)>> {
        let mut left = COPIED_MAX;
        let one = |(key, path): (u32, PathBuf)| Ok((key, copy_of(&path, &mut left)?));
        self.kept_files().into_iter().map(one).collect()
    }

    /// Bytes that a kept file had.
    pub fn kept_size(&self, key: u32) -> Option<u64> {
        let kept = open_files(self).find(|f| f.kept == Some(key));
        kept.map(|f| f.identity.size)
    }

    /// Files whose content is to be kept, each once: its key, and where it can be read while its process lives.
    pub fn kept_files(&self) -> Vec<(u32, PathBuf)> {
        let mut found: Vec<(u32, PathBuf)> = Vec::new();
        for p in &self.processes {
            for d in &p.descriptors {
                let of = self.descriptions.get(d.description as usize);
                if let Some(Kind::File(OpenFile {
                    kept: Some(key), ..
                })) = of.map(|d| &d.kind)
                    && !found.iter().any(|(known, _)| known == key)
                {
                    found.push((*key, format!("/proc/{}/fd/{}", p.pid, d.fd).into()));
                }
            }
        }
        found
    }
}
