//! A file of an export, found by handle or by name.

use super::failed::{Failed, status};
use super::handle::{Meaning, encode};
use super::opened::Tree;
use super::paths::{TOP, number};
use super::sys;
use crate::export::Access;
use nfs3_types::nfs3::{fattr3, ftype3, nfsstat3, nfstime3, specdata3};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// A file that is there now.
#[derive(Debug)]
pub struct Found {
    pub tree: Arc<Tree>,
    /// Of `O_PATH`: nothing is opened by it.
    pub fd: OwnedFd,
    /// As it was when it was found.
    pub stat: Stat,
    pub handle: Vec<u8>,
    /// Of the path; only with [`Identity::Path`](crate::export::Identity).
    pub(super) path: u128,
    /// The node that alone has it, or nothing.
    pub(super) owner: Arc<str>,
}

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Found {
    /// Takes an open file of this tree, and makes its handle.
    pub(super) fn new(
        tree: &Arc<Tree>,
        fd: OwnedFd,
        path: u128,
        owner: &Arc<str>,
    ) -> Result<Found, Failed> {
        let mut found = Found::of_handle(tree, fd, path, owner, &[])?;
        let meaning = match tree.generation() {
            Some(generation) => Meaning::Path {
                generation,
                path,
                kind: kind_of(&found.stat),
            },
            None => Meaning::Inode {
                export: tree.number,
                file: sys::handle_of(found.fd.as_fd()).map_err(status)?,
            },
        };
        let handle = encode(&meaning, &tree.signer, owner);
        found.handle = handle.ok_or(nfsstat3::NFS3ERR_SERVERFAULT)?;
        Ok(found)
    }

    /// The same, with the handle that it was opened by.
    pub(super) fn of_handle(
        tree: &Arc<Tree>,
        fd: OwnedFd,
        path: u128,
        owner: &Arc<str>,
        handle: &[u8],
    ) -> Result<Found, Failed> {
        Ok(Found {
            tree: tree.clone(),
            stat: rustix::fs::fstat(&fd).map_err(status)?,
            fd,
            handle: handle.to_vec(),
            path,
            owner: owner.clone(),
        })
    }

    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Before a change.
    pub fn is_writable(&self) -> Result<(), Failed> {
        match self.tree.export.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(nfsstat3::NFS3ERR_ROFS),
        }
    }

    /// The file of this name, which is one part of a path, whatever tags say. Before: the thread is the caller's user.
    pub fn child(&self, name: &[u8]) -> Result<Found, Failed> {
        // A mount of the server below the export is no part of it.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let name_of = OsStr::from_bytes(name);
        let fd = rustix::fs::openat2(&self.fd, name_of, PATH_ONLY, Mode::empty(), within);
        // A name that is not there needs no handle, and there are endless many of those.
        let fd = fd.map_err(status)?;
        let path = match self.tree.paths() {
            Some(paths) => paths.learn(self.path, name),
            None => TOP,
        };
        Found::new(&self.tree, fd, path, &self.owner)
    }

    /// The same file as it is now.
    pub fn again(&self) -> Option<Stat> {
        rustix::fs::fstat(&self.fd).ok()
    }

    /// Whether the thread's user may do this. `mode`: `R_OK`, `W_OK`, `X_OK`.
    pub fn may(&self, mode: i32) -> Result<(), Failed> {
        sys::may(self.fd.as_fd(), mode).map_err(status)
    }

    /// Attributes, of a look at this file.
    pub fn attributes(&self, stat: &Stat) -> fattr3 {
        fattr(stat, self.tree.number, self.number(stat))
    }

    fn number(&self, stat: &Stat) -> u64 {
        match self.tree.paths() {
            Some(_) => short(self.path),
            None => stat.st_ino,
        }
    }

    /// The number that [`Found::attributes`] would give for a name in this directory, of the inode.
    pub fn number_of(&self, name: &[u8], inode: u64) -> u64 {
        match self.tree.paths() {
            Some(_) => short(number(self.path, name)),
            None => inode,
        }
    }

    /// Waits until the file is on the disk, with all data that was written to it. Before: root.
    pub fn sync(&self) -> Result<(), Failed> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.kind() {
            FileType::RegularFile | FileType::Directory => {}
            _ => return Err(nfsstat3::NFS3ERR_INVAL),
        }
        let path = sys::proc_path(self.fd.as_fd());
        let file = rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(status)?;
        rustix::fs::fsync(file).map_err(status)
    }
}

/// KERNEL: a client takes 0 for no number.
fn short(path: u128) -> u64 {
    ((path >> 64) as u64).max(2)
}

/// What kind of file a handle of a path is for. KERNEL: a client takes no other kind for the same file.
pub(super) fn kind_of(stat: &Stat) -> u8 {
    // KERNEL: inode(7): the kind is the highest four bits of sixteen.
    (stat.st_mode >> 12) as u8
}

/// RFC 1813, 2.5.
pub fn fattr(stat: &Stat, fsid: u64, number: u64) -> fattr3 {
    let time = |s: i64, ns: u64| nfstime3 {
        seconds: u32::try_from(s.max(0)).unwrap_or(u32::MAX),
        nseconds: ns as u32,
    };
    fattr3 {
        type_: match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => ftype3::NF3DIR,
            FileType::Symlink => ftype3::NF3LNK,
            FileType::BlockDevice => ftype3::NF3BLK,
            FileType::CharacterDevice => ftype3::NF3CHR,
            FileType::Socket => ftype3::NF3SOCK,
            FileType::Fifo => ftype3::NF3FIFO,
            _ => ftype3::NF3REG,
        },
        mode: stat.st_mode & 0o7777,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        // KERNEL: stat(2): in units of 512 bytes.
        used: stat.st_blocks as u64 * 512,
        rdev: specdata3 {
            specdata1: rustix::fs::major(stat.st_rdev),
            specdata2: rustix::fs::minor(stat.st_rdev),
        },
        fsid,
        fileid: number,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}
