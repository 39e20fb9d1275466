//! What a generation consists of: every file of its root with its SHA-256.

use crate::problem::{At, BootError};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Files of one root: a full desktop has half a million.
const FILES_MAX: usize = 4_000_000;
/// Bytes of a manifest: [`FILES_MAX`] of them take less.
const MANIFEST_MAX: u64 = 1 << 30;

/// The schema of the file.
const SCHEMA: &str = "armento.image/1";

/// A generation's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: String,
    pub image: String,
    /// Seconds since 1970.
    pub made: u64,
    /// As ELF names it: `x86_64`.
    pub arch: String,
    /// Release of the kernel: `6.12.95+deb12-amd64`.
    pub kernel: String,
    /// Of what it was made, in words.
    pub from: String,
    /// SHA-256 of the files beside the root.
    pub vmlinuz: String,
    pub initrd: String,
    /// None where `mkfs.erofs` was not installed: such a generation cannot be a root in RAM.
    pub erofs: Option<String>,
    /// Bytes of all files together.
    pub bytes: u64,
    /// By path.
    pub files: Vec<Entry>,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    File { bytes: u64, sha256: String },
    Directory,
    Link { to: String },
    Device { block: bool, number: u64 },
    Pipe,
    Socket,
}

/// One path of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the root. Bytes that are not UTF-8 are replaced.
    pub path: String,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    #[serde(flatten)]
    pub kind: Kind,
}

impl Manifest {
    pub fn new(image: &str, made: u64, from: &str) -> Manifest {
        Manifest {
            schema: SCHEMA.into(),
            image: image.into(),
            made,
            arch: String::new(),
            kernel: String::new(),
            from: from.into(),
            vmlinuz: String::new(),
            initrd: String::new(),
            erofs: None,
            bytes: 0,
            files: Vec::new(),
        }
    }

    pub fn load(path: &Path) -> Result<Manifest, BootError> {
        let damaged = |what: String| BootError::Damaged {
            path: path.to_owned(),
            what,
        };
        let len = fs::metadata(path).at(path)?.len();
        if len > MANIFEST_MAX {
            return Err(damaged(format!("it has {len} bytes")));
        }
        let bytes = fs::read(path).at(path)?;
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        match manifest.schema.as_str() {
            SCHEMA => Ok(manifest),
            other => Err(damaged(format!("its schema is {other}, not {SCHEMA}"))),
        }
    }

    pub fn save(&self, path: &Path) -> Result<(), BootError> {
        let bytes = serde_json::to_vec(self).map_err(|e| BootError::Damaged {
            path: path.to_owned(),
            what: e.to_string(),
        })?;
        crate::layout::replace(path, &bytes)
    }
}

/// All paths below a root, sorted. Links are not followed, other file systems are entered.
pub fn scan(root: &Path) -> Result<Vec<Entry>, BootError> {
    let mut all = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).at(&dir)? {
            let path = entry.at(&dir)?.path();
            let seen = describe(root, &path)?;
            if seen.kind == Kind::Directory {
                open.push(path);
            }
            all.push(seen);
            if all.len() > FILES_MAX {
                return Err(BootError::refused(
                    format!("{} has more than {FILES_MAX} files", root.display()),
                    "is it the root of a node?",
                ));
            }
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn describe(root: &Path, path: &Path) -> Result<Entry, BootError> {
    let meta = fs::symlink_metadata(path).at(path)?;
    let kind = meta.file_type();
    let kind = if kind.is_file() {
        Kind::File {
            bytes: meta.len(),
            sha256: sha256(path)?,
        }
    } else if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        let to = fs::read_link(path).at(path)?;
        Kind::Link {
            to: to.to_string_lossy().into_owned(),
        }
    } else if kind.is_fifo() {
        Kind::Pipe
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Device {
            block: kind.is_block_device(),
            number: meta.rdev(),
        }
    };
    let below = path.strip_prefix(root).unwrap_or(path);
    Ok(Entry {
        path: below.to_string_lossy().into_owned(),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        kind,
    })
}

/// SHA-256 of a file, in hex.
pub fn sha256(path: &Path) -> Result<String, BootError> {
    let mut file = fs::File::open(path).at(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).at(path)? {
            0 => break,
            n => context.update(&buffer[..n]),
        }
    }
    Ok(hex(context.finish().as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
