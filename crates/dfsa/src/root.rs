//! The root of a mount, below which files are opened.

use crate::identity::statx_of;
use rustix::fs::{Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Why a mount cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoot {
    #[error(
        "nothing is mounted at {0}; mount the shared file system there, or take {0} out of dfsa"
    )]
    NotMounted(PathBuf),
    #[error("{0} cannot be opened: {1}")]
    Refused(PathBuf, Errno),
}

/// The root directory of a mounted file system.
#[derive(Debug)]
pub struct Root {
    file: File,
    /// KERNEL: statx(2), STATX_MNT_ID.
    mount: u64,
    magic: i64,
}

impl Root {
    /// Opens the mount point `path`, with the caller's rights.
    pub fn open(path: &Path) -> Result<Root, NoRoot> {
        let refused = |e| NoRoot::Refused(path.to_owned(), e);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(
            rustix::fs::CWD,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::NO_MAGICLINKS,
        );
        let file = match file {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                return Err(NoRoot::NotMounted(path.to_owned()));
            }
            Err(e) => return Err(refused(e)),
        };
        let s = statx_of(&file, StatxFlags::MNT_ID).map_err(refused)?;
        if !s.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(NoRoot::NotMounted(path.to_owned()));
        }
        let magic = rustix::fs::fstatfs(&file).map_err(refused)?.f_type;
        Ok(Root {
            file,
            mount: s.stx_mnt_id,
            magic,
        })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// `f_type` of statfs(2).
    pub fn magic(&self) -> i64 {
        self.magic
    }

    /// Whether a file was reached through this very mount.
    pub fn has(&self, file: impl AsFd) -> bool {
        let s = statx_of(file, StatxFlags::MNT_ID);
        s.is_ok_and(|s| s.stx_mnt_id == self.mount)
    }

    /// Opens a file by its path below the root. No link leads there, and nothing outside this mount is reached: KERNEL:
    /// openat2(2).
    pub fn open_below(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // KERNEL: openat2(2): EINVAL for flags that O_PATH ignores.
        if !flags.contains(OFlags::PATH) {
            flags |= OFlags::NOCTTY;
        }
        openat2(&self.file, path, flags, mode, resolve).map(File::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mount_points_are_roots_and_nothing_outside_is_reached() {
        let shm = Root::open(Path::new("/dev/shm")).expect("a mount point");
        let dir = std::env::temp_dir().join(format!("dfsa-root-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).expect("made");
        std::fs::write(dir.join("below/file"), "x").expect("written");
        std::os::unix::fs::symlink("below/file", dir.join("link")).expect("linked");
        assert!(matches!(Root::open(&dir), Err(NoRoot::NotMounted(p)) if p == dir));
        // The directory stands for a root: that it is none matters to `open` only.
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let file = rustix::fs::open(&dir, flags, Mode::empty()).expect("opened");
        let root = Root {
            file: file.into(),
            ..shm
        };
        let open = |path: &str| root.open_below(Path::new(path), OFlags::RDONLY, Mode::empty());
        assert!(open("below/file").is_ok());
        for out in ["link", "/etc/passwd", "../x", "below/../../x"] {
            assert!(open(out).is_err(), "{out}");
        }
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
