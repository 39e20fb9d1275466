//! One export, opened.

use super::handle::Signer;
use super::paths::Paths;
use super::sys;
use crate::export::{Access, Export, Identity, Place};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// One export, open until its last use ends.
#[derive(Debug)]
pub struct Tree {
    pub export: Export,
    /// Of the file system, as clients see it, and in handles.
    pub number: u64,
    pub(super) signer: Arc<Signer>,
    /// The directory, in a mount of its own: what is mounted below it on the server is not seen.
    pub(super) top: OwnedFd,
    paths: Option<Paths>,
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Tree {
    pub(super) fn open(export: &Export, signer: &Arc<Signer>) -> Result<Tree, String> {
        if !export.path.starts_with('/') {
            return Err("the path must begin with /".into());
        }
        let directory = match &export.place {
            Place::Shared(directory) | Place::PerNode(directory) => directory,
        };
        let show = |e: Errno| format!("{}: {e}", directory.display());
        let top = open_top(directory).map_err(show)?;
        let (number, paths) = match (export.identity, &export.place) {
            (Identity::Path { .. }, Place::PerNode(_)) => {
                return Err("handles of paths are for shared directories".into());
            }
            (Identity::Path { .. }, _) if export.access == Access::ReadWrite => {
                return Err("handles of paths are for directories that clients only read".into());
            }
            (Identity::Path { generation }, _) => (generation, Some(Paths::default())),
            (Identity::Inode, _) => (xxh3_64(export.path.as_bytes()), None),
        };
        if paths.is_none() {
            let known = sys::handle_of(top.as_fd()).map_err(|e| {
                format!(
                    "{}: its file system has no handles: {e}",
                    directory.display()
                )
            })?;
            sys::open_handle(top.as_fd(), &known).map_err(|e| {
                format!(
                    "{}: cannot open by handle (needs root): {e}",
                    directory.display()
                )
            })?;
        }
        Ok(Tree {
            export: export.clone(),
            number,
            signer: signer.clone(),
            top,
            paths,
        })
    }

    pub(super) fn paths(&self) -> Option<&Paths> {
        self.paths.as_ref()
    }

    pub(super) fn generation(&self) -> Option<u64> {
        self.paths.as_ref().map(|_| self.number)
    }
}

/// Opens a directory in a copy of its mount, without those below it. Without the permission for that: as it is.
fn open_top(directory: &Path) -> Result<OwnedFd, Errno> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match rustix::mount::open_tree(CWD, directory, clone) {
        Ok(mount) => rustix::fs::openat(mount, c".", DIRECTORY, Mode::empty()),
        Err(Errno::PERM | Errno::NOSYS | Errno::INVAL) => {
            rustix::fs::openat(CWD, directory, DIRECTORY, Mode::empty())
        }
        Err(e) => Err(e),
    }
}
