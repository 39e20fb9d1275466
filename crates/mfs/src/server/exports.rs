//! What of a node is exported.

use crate::MfsError;
use crate::server::res::Res;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Exports of a node at most: they are compared one by one.
const EXPORTS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exports {
    pub paths: Vec<Export>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// An absolute path; the directory and what is below it can be reached.
    pub path: PathBuf,
    #[serde(default)]
    pub read_only: bool,
    /// Absolute paths below it that cannot be reached.
    #[serde(default)]
    pub hidden: Vec<PathBuf>,
}

/// What a path is to the mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the export with this index.
    In(usize),
    /// A directory that leads to an export: it shows nothing else.
    Above,
    Nowhere,
}

pub struct Checked {
    exports: Vec<Export>,
    /// Files that are hidden, should they be reached by another path.
    hidden: Vec<(u64, u64)>,
    /// All is exported: no path has to be looked at.
    pub plain: bool,
}

fn absolute(p: &Path) -> bool {
    p.is_absolute()
        && p.components()
            .all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
}

fn dev_ino(p: &Path) -> Option<(u64, u64)> {
    let s = statx(
        rustix::fs::CWD,
        p,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::INO,
    )
    .ok()?;
    Some((
        rustix::fs::makedev(s.stx_dev_major, s.stx_dev_minor),
        s.stx_ino,
    ))
}

impl Checked {
    pub fn new(mut e: Exports) -> Result<Checked, MfsError> {
        let bad = |p: &Path, why: &str| MfsError::Export {
            path: p.display().to_string(),
            why: why.into(),
        };
        if e.paths.len() > EXPORTS_MAX {
            return Err(bad(Path::new("/"), "too many exports: at most 64"));
        }
        for x in &mut e.paths {
            // Without trailing and doubled slashes.
            x.path = x.path.components().collect();
            if !absolute(&x.path) {
                return Err(bad(&x.path, "it has to be an absolute path without `..`"));
            }
            for h in &mut x.hidden {
                *h = h.components().collect();
                if !absolute(h) {
                    return Err(bad(h, "it has to be an absolute path without `..`"));
                }
            }
        }
        let hidden: Vec<_> = e.paths.iter().flat_map(|x| &x.hidden).collect();
        let plain = matches!(&e.paths[..], [x] if x.path == Path::new("/")) && hidden.is_empty();
        Ok(Checked {
            hidden: hidden.into_iter().filter_map(|p| dev_ino(p)).collect(),
            plain,
            exports: e.paths,
        })
    }

    pub fn place(&self, path: &Path) -> Place {
        let best = (0..self.exports.len())
            .filter(|i| path.starts_with(&self.exports[*i].path))
            .max_by_key(|i| self.exports[*i].path.as_os_str().len());
        match best {
            Some(i) if self.exports[i].hidden.iter().any(|h| path.starts_with(h)) => Place::Nowhere,
            Some(i) => Place::In(i),
            None if self.exports.iter().any(|x| x.path.starts_with(path)) => Place::Above,
            None => Place::Nowhere,
        }
    }

    pub fn is_hidden_file(&self, dev: u64, ino: u64) -> bool {
        self.hidden.contains(&(dev, ino))
    }

    pub fn read_only(&self, export: usize) -> bool {
        self.exports.get(export).is_none_or(|x| x.read_only)
    }

    /// Names in a directory that leads to exports.
    pub fn names_above(&self, path: &Path) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = self
            .exports
            .iter()
            .filter_map(|x| x.path.strip_prefix(path).ok()?.components().next())
            .map(|c| c.as_os_str().as_bytes().to_vec())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn open(&self, export: usize) -> Res<OwnedFd> {
        let x = self.exports.get(export).ok_or(Errno::NOENT)?;
        openat2(
            rustix::fs::CWD,
            &x.path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// All of the node, to be written.
    pub fn whole(&self) -> bool {
        self.exports
            .iter()
            .any(|x| x.path == Path::new("/") && !x.read_only)
            && self.exports.iter().all(|x| !x.read_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(path: &str, read_only: bool, hidden: &[&str]) -> Export {
        Export {
            path: path.into(),
            read_only,
            hidden: hidden.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn the_nearest_export_decides() {
        let c = Checked::new(Exports {
            paths: vec![
                export("/data", false, &["/data/key"]),
                export("/data/old//", true, &[]),
                export("/srv/pub", true, &[]),
            ],
        })
        .expect("good");
        let check = |p: &str, want: Place| assert_eq!(c.place(Path::new(p)), want, "{p}");
        check("/", Place::Above);
        check("/srv", Place::Above);
        check("/srv/pub/x", Place::In(2));
        check("/srv/public", Place::Nowhere);
        check("/data/x", Place::In(0));
        check("/data/old/x", Place::In(1));
        check("/data/key", Place::Nowhere);
        check("/data/key/x", Place::Nowhere);
        check("/data/keys", Place::In(0));
        check("/etc", Place::Nowhere);
        assert_eq!(
            c.names_above(Path::new("/")),
            [b"data".to_vec(), b"srv".to_vec()]
        );
        assert!(c.read_only(1) && !c.read_only(0) && c.read_only(9) && !c.whole());
    }

    #[test]
    fn relative_exports_are_refused() {
        for bad in ["data", "/data/../etc", ""] {
            assert!(
                Checked::new(Exports {
                    paths: vec![export(bad, false, &[])]
                })
                .is_err(),
                "{bad}"
            );
        }
    }
}
