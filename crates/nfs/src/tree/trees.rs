//! The exports, opened.

use super::failed::{Failed, status};
use super::found::{Found, kind_of};
use super::handle::{Meaning, Signer, decode};
use super::opened::Tree;
use super::paths::TOP;
use super::sys;
use crate::NfsError;
use crate::export::{Exports, Place};
use nfs3_types::nfs3::nfsstat3;
use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// All exports of a server.
#[derive(Debug)]
pub struct Trees {
    pub list: Vec<Arc<Tree>>,
    signer: Arc<Signer>,
}

impl Default for Trees {
    /// None.
    fn default() -> Trees {
        Trees {
            list: Vec::new(),
            signer: Arc::new(Signer::new(&[0; 32])),
        }
    }
}

impl Trees {
    /// Opens all. After an error nothing is open.
    pub fn open(exports: &Exports) -> Result<Trees, NfsError> {
        let signer = Arc::new(Signer::new(&exports.key.0));
        let mut list: Vec<Arc<Tree>> = Vec::new();
        let mut numbers = BTreeSet::new();
        for export in &exports.list {
            let wrong = |why: String| NfsError::Export {
                path: export.path.clone(),
                why,
            };
            if list.iter().any(|t| t.export.path == export.path) {
                return Err(wrong("another export has this path".into()));
            }
            let tree = Tree::open(export, &signer).map_err(wrong)?;
            if !numbers.insert(tree.number) {
                return Err(wrong("another export has this generation".into()));
            }
            list.push(Arc::new(tree));
        }
        Ok(Trees { list, signer })
    }

    /// The export that a path of a client is in, the longest one; and the rest of the path.
    pub fn export<'a>(&self, path: &'a str) -> Option<(&Arc<Tree>, &'a str)> {
        let below = |tree: &Arc<Tree>| {
            let rest = path.strip_prefix(tree.export.path.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let all = self.list.iter().filter_map(|t| Some((t, below(t)?)));
        all.max_by_key(|(t, _)| t.export.path.len())
    }

    /// The file of a handle, for this node. Before: root.
    pub fn find(&self, handle: &[u8], node: Option<&str>) -> Result<Found, Failed> {
        let owners: &[&str] = &["", node.unwrap_or_default()];
        let meaning = decode(handle, &self.signer, owners)?;
        let number = match &meaning {
            Meaning::Inode { export, .. } => *export,
            Meaning::Path { generation, .. } => *generation,
        };
        let mut all = self.list.iter();
        let tree = all
            .find(|t| t.number == number)
            .ok_or(nfsstat3::NFS3ERR_STALE)?;
        match (meaning, tree.paths()) {
            (Meaning::Inode { file, .. }, None) => {
                let fd = sys::open_handle(tree.top.as_fd(), &file).map_err(status)?;
                let owner = match tree.export.place {
                    Place::PerNode(_) => node.unwrap_or_default(),
                    Place::Shared(_) => "",
                };
                Found::of_handle(tree, fd, TOP, &owner.into(), handle)
            }
            (Meaning::Path { path, kind, .. }, Some(_)) => {
                let found = open_path(tree, path)?;
                if kind_of(&found.stat) == kind {
                    Ok(found)
                } else {
                    Err(nfsstat3::NFS3ERR_STALE)
                }
            }
            _ => Err(nfsstat3::NFS3ERR_STALE),
        }
    }
}

/// The directory that a node has as the export's. Before: root.
pub fn root(this: &Arc<Tree>, node: Option<&str>) -> Result<Found, Failed> {
    match (&this.export.place, node) {
        (Place::Shared(_), _) => top(this, &"".into()),
        (Place::PerNode(_), None) => Err(nfsstat3::NFS3ERR_ACCES),
        (Place::PerNode(_), Some(node)) => {
            if matches!(node, "" | "." | "..") || node.contains('/') {
                return Err(nfsstat3::NFS3ERR_ACCES);
            }
            match rustix::fs::mkdirat(&this.top, node, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(status(e)),
            }
            top(this, &node.into())
        }
    }
}

/// The same, of a node's directory that is there.
fn top(this: &Arc<Tree>, owner: &Arc<str>) -> Result<Found, Failed> {
    let name = if owner.is_empty() { "." } else { owner };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&this.top, name, flags, Mode::empty()).map_err(status)?;
    Found::new(this, fd, TOP, owner)
}

/// Before: root; the tree has paths.
fn open_path(this: &Arc<Tree>, number: u128) -> Result<Found, Failed> {
    let stale = nfsstat3::NFS3ERR_STALE;
    let paths = this.paths().ok_or(stale)?;
    let path = paths.path(number, this.top.as_fd()).ok_or(stale)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let gone = |e| match e {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => stale,
        e => status(e),
    };
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let path = OsStr::from_bytes(&path);
    let fd = rustix::fs::openat2(&this.top, path, flags, Mode::empty(), within);
    Found::new(this, fd.map_err(gone)?, number, &"".into())
}

/// The directory that this directory is in; the export's own is in itself. Before: root.
pub fn parent(of: &Found) -> Result<Found, Failed> {
    if let Some(paths) = of.tree.paths() {
        let parent = paths.parent(of.path).ok_or(nfsstat3::NFS3ERR_STALE)?;
        return open_path(&of.tree, parent);
    }
    let top = top(&of.tree, &of.owner)?;
    let same = |a: &Stat, b: &Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
    if same(&top.stat, &of.stat) {
        return Ok(top);
    }
    let up = |from: &OwnedFd| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(from, c"..", flags, Mode::empty()).map_err(|e| match e {
            // KERNEL: namei.c, path_connected: it is not below the mount any more.
            Errno::NOENT => nfsstat3::NFS3ERR_STALE,
            e => status(e),
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(status)?;
        Ok((fd, stat))
    };
    let (parent, stat) = up(&of.fd)?;
    // It may have been moved out of the export meanwhile.
    let (mut above, mut seen) = (rustix::io::dup(&parent).map_err(status)?, stat);
    while !same(&seen, &top.stat) {
        let (next, stat) = up(&above)?;
        if same(&stat, &seen) {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        (above, seen) = (next, stat);
    }
    Found::new(&of.tree, parent, TOP, &of.owner)
}
