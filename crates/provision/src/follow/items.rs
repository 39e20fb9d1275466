//! What a root consists of, as it is compared and copied.

use crate::problem::{At, BootError};
use ring::digest::{Context, SHA256};
use rustix::fs::{CWD, XattrFlags};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path};

/// Paths of one root, as an image's manifest allows.
pub const ITEMS_MAX: usize = 4_000_000;
/// KERNEL: linux/limits.h: XATTR_LIST_MAX and XATTR_SIZE_MAX.
const ATTRIBUTES_MAX: usize = 65_536;

/// One path of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Relative to the root.
    pub path: String,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    #[serde(flatten)]
    pub kind: Kind,
    /// Extended attributes: file capabilities, access lists. Values in hex.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// `changed`: seconds and nanoseconds since 1970.
    File {
        bytes: u64,
        changed: (i64, i64),
    },
    Directory,
    Link {
        to: String,
    },
    Device {
        block: bool,
        number: u64,
    },
    Pipe,
}

impl Kind {
    /// Whether one may take the other's place by rename(2).
    pub fn is_directory(&self) -> bool {
        *self == Kind::Directory
    }
}

/// Calls `each` for every path below `root`, directories before what is in them. Links are not followed.
fn walk(
    root: &Path,
    each: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<(), BootError>,
) -> Result<(), BootError> {
    let mut open = vec![root.to_owned()];
    let mut count = 0;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).at(&dir)? {
            let path = entry.at(&dir)?.path();
            let meta = match fs::symlink_metadata(&path) {
                // Removed meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                meta => meta.at(&path)?,
            };
            each(&path, &meta)?;
            count += 1;
            if count > ITEMS_MAX {
                return Err(BootError::refused(
                    format!("{} has more than {ITEMS_MAX} files", root.display()),
                    "is it the root of a node?",
                ));
            }
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(())
}

/// All paths below a root, sorted: a directory is before what is in it.
pub fn items(root: &Path) -> Result<Vec<Item>, BootError> {
    let mut all = Vec::new();
    walk(root, &mut |path, meta| {
        all.extend(item(root, path, meta)?);
        Ok(())
    })?;
    all.sort_by(|a: &Item, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Changes when anything below a root does. Reads no file.
///
/// KERNEL: inode(7): st_ctim changes with content, names, owner, mode and attributes.
pub fn sign(root: &Path) -> Result<String, BootError> {
    let mut all = Vec::new();
    walk(root, &mut |path, meta| {
        let mut context = Context::new(&SHA256);
        context.update(path.as_os_str().as_bytes());
        for number in [meta.ino(), meta.size(), u64::from(meta.mode())] {
            context.update(&number.to_be_bytes());
        }
        for number in [meta.ctime(), meta.ctime_nsec()] {
            context.update(&number.to_be_bytes());
        }
        all.push(context.finish());
        Ok(())
    })?;
    // Directories are read in any order.
    all.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    let mut context = Context::new(&SHA256);
    all.iter().for_each(|one| context.update(one.as_ref()));
    Ok(hex(context.finish().as_ref()))
}

fn item(root: &Path, path: &Path, meta: &fs::Metadata) -> Result<Option<Item>, BootError> {
    let below = path.strip_prefix(root).unwrap_or(path);
    let name = below.to_str().ok_or_else(|| {
        BootError::refused(
            format!("the name {} is not UTF-8", path.display()),
            "rename the file; other boot servers have no copy of this image until then",
        )
    })?;
    let file_type = meta.file_type();
    let kind = if file_type.is_file() {
        Kind::File {
            bytes: meta.len(),
            changed: (meta.mtime(), meta.mtime_nsec()),
        }
    } else if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_symlink() {
        let to = match fs::read_link(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            to => to.at(path)?,
        };
        Kind::Link {
            to: to.to_string_lossy().into_owned(),
        }
    } else if file_type.is_fifo() {
        Kind::Pipe
    } else if file_type.is_socket() {
        // Of a program that runs in the root: nothing is behind it elsewhere.
        return Ok(None);
    } else {
        Kind::Device {
            block: file_type.is_block_device(),
            number: meta.rdev(),
        }
    };
    let attributes = match kind {
        Kind::File { .. } | Kind::Directory => attributes(path).unwrap_or_default(),
        _ => Vec::new(),
    };
    Ok(Some(Item {
        path: name.to_owned(),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        kind,
        attributes,
    }))
}

/// Extended attributes of a file; none where the file system has none.
fn attributes(path: &Path) -> rustix::io::Result<Vec<(String, String)>> {
    let mut names = vec![0u8; ATTRIBUTES_MAX];
    let len = rustix::fs::llistxattr(path, &mut names[..])?;
    let mut all = Vec::new();
    for name in names[..len].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let mut value = vec![0u8; ATTRIBUTES_MAX];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        all.push((name.to_owned(), hex(&value[..len])));
    }
    all.sort();
    Ok(all)
}

/// Gives a path the attributes of an item; `path` is no link that another may have made.
pub fn set_attributes(path: &Path, item: &Item) -> std::io::Result<()> {
    let before = attributes(path).unwrap_or_default();
    for (name, _) in before.iter().filter(|b| !item.attributes.contains(b)) {
        rustix::fs::lremovexattr(path, name.as_str())?;
    }
    for (name, value) in item.attributes.iter().filter(|a| !before.contains(a)) {
        rustix::fs::lsetxattr(path, name.as_str(), &unhex(value), XattrFlags::empty())?;
    }
    Ok(())
}

/// Owner, then mode: KERNEL: chown(2) clears set-user-ID bits and capabilities. Then attributes.
pub fn set_owner(path: &Path, item: &Item) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(item.uid), Some(item.gid))?;
    if !matches!(item.kind, Kind::Link { .. }) {
        let mode = rustix::fs::Mode::from_raw_mode(item.mode);
        rustix::fs::chmodat(CWD, path, mode, rustix::fs::AtFlags::empty())?;
        set_attributes(path, item)?;
    }
    Ok(())
}

/// Whether a path of another server may be used here: names below the root, nothing that leads out of it.
pub fn is_below(path: &str) -> bool {
    let names = |c: Component| matches!(c, Component::Normal(_));
    !path.is_empty() && Path::new(path).components().all(names) && !path.contains('\0')
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_are_refused() {
        for good in ["a", "etc/hosts", "a/b c/d"] {
            assert!(is_below(good), "{good}");
        }
        for bad in ["", "/", "/etc", "..", "a/../b", "../a", "a/\0"] {
            assert!(!is_below(bad), "{bad}");
        }
        assert_eq!(unhex(&hex(&[0, 7, 255])), [0, 7, 255]);
    }
}
