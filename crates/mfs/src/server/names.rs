//! Names, attributes and extended attributes.

use crate::protocol::{Attr, Entry, Identity, Reply, Set, SetTime, Space, Who, XATTR_MAX};
use crate::server::inodes::{DEPTH_MAX, Node, ROOT, acls, acls_at, attr_at};
use crate::server::opens::kill_privileges;
use crate::server::res::Res;
use crate::server::session::Session;
use crate::sync::lock;
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Gid, Mode, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::CString;

/// Symbolic links of which the length is remembered, at most.
const LINKS_MAX: usize = 64 << 10;

impl Session {
    /// The attributes of a file as the mount shows them.
    pub fn shown(&self, node: &Node, a: Attr) -> Attr {
        self.shown_link(a, || rustix::fs::readlinkat(&node.fd, "", Vec::new()))
    }

    pub fn shown_at(&self, dir: &Node, name: &[u8], a: Attr) -> Attr {
        self.shown_link(a, || rustix::fs::readlinkat(&dir.fd, name, Vec::new()))
    }

    /// A link's size is the length of what readlink(2) gives. It is read once: that sets its time of access.
    fn shown_link(&self, mut a: Attr, read: impl FnOnce() -> Res<CString>) -> Attr {
        if a.kind() == libc::S_IFLNK {
            let who = a.identity();
            let known = lock(&self.links).get(&who).copied();
            let size = known.or_else(|| {
                let n = self.shown.target(read().ok()?.into_bytes()).len() as u64;
                let mut links = lock(&self.links);
                if links.len() >= LINKS_MAX {
                    links.clear();
                }
                links.insert(who, n);
                Some(n)
            });
            a.size = size.unwrap_or(a.size);
        }
        a
    }

    /// Gives the mount a reference to what has this name.
    pub fn entry(&self, dir: u64, parent: &Node, name: &[u8]) -> Res<Entry> {
        let found = self.inodes.find(parent, name)?;
        let id = self.inodes.enter(&found.node, &found.attr, dir, name)?;
        let attr = self.shown(&found.node, found.attr);
        Ok(Entry {
            id,
            acls: match parent.above {
                Some(_) => acls(&found.node),
                None => acls_at(parent, name, attr.kind()),
            },
            attr,
            name_kept: false,
            attr_kept: false,
        })
    }

    /// As [`Session::entry`], and the mount is told of changes if the directory can be watched. Before: nothing else is
    /// sent on the stream of names until the entry is.
    pub fn lookup(&self, dir: u64, name: &[u8]) -> Res<Reply> {
        let parent = self.inodes.node(dir)?;
        // Watched first: what changes after the file was looked at is told of.
        let watched = self.watch(dir, &parent);
        match self.entry(dir, &parent, name) {
            Ok(mut e) => {
                self.keep(watched, dir, name, &mut e);
                if parent.above.is_some() {
                    // Exports do not change while the server runs.
                    e.name_kept = true;
                    e.attr_kept |= self.inodes.node(e.id).is_ok_and(|n| n.above.is_some());
                }
                Ok(Reply::Entry(e))
            }
            Err(Errno::NOENT) => Ok(Reply::Absent {
                kept: watched && self.keep_absent(dir, name),
            }),
            Err(e) => Err(e),
        }
    }

    pub fn resolve(&self, names: &[Vec<u8>], want: &Identity) -> Res<Reply> {
        if names.len() > DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let Some((last, dirs)) = names.split_last() else {
            let node = self.inodes.node(ROOT)?;
            let attr = self.inodes.attr(&node)?;
            if attr.identity() != *want {
                return Err(Errno::STALE);
            }
            self.inodes.enter(&node, &attr, ROOT, b"")?;
            return Ok(Reply::Entry(Entry {
                id: ROOT,
                acls: acls(&node),
                attr,
                name_kept: false,
                attr_kept: false,
            }));
        };
        let mut at = ROOT;
        let mut passed = Vec::new();
        let mut walk = || {
            for name in dirs {
                let node = self.inodes.node(at)?;
                let e = self.entry(at, &node, name)?;
                passed.push(e.id);
                at = e.id;
            }
            let node = self.inodes.node(at)?;
            self.entry(at, &node, last)
        };
        let end = walk();
        for id in passed {
            self.forget(id, 1);
        }
        match end {
            Ok(e) if e.attr.identity() == *want => Ok(Reply::Entry(e)),
            Ok(e) => {
                self.forget(e.id, 1);
                Err(Errno::STALE)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Err(Errno::STALE),
            Err(e) => Err(e),
        }
    }

    pub fn getattr(&self, id: u64, file: Option<u64>) -> Res<Reply> {
        let watched = file.is_none() && self.is_kept(id);
        if let Some(open) = file.and_then(|f| self.files.get(f).ok()) {
            let attr = crate::server::inodes::attr(&open.file)?;
            return Ok(Reply::Attr { attr, kept: false });
        }
        let node = self.inodes.node(id)?;
        let watched = watched || node.kind == libc::S_IFDIR && self.watch(id, &node);
        let attr = self.shown(&node, self.inodes.attr(&node)?);
        let kept = node.above.is_some() || watched && self.keep_attr(id, &attr);
        Ok(Reply::Attr { attr, kept })
    }

    pub fn setattr(&self, id: u64, file: Option<u64>, set: &Set) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        self.inodes.writable(&node)?;
        let path = node.path();
        if set.uid.is_some() || set.gid.is_some() {
            let uid = set.uid.map(Uid::from_raw);
            let gid = set.gid.map(Gid::from_raw);
            rustix::fs::chownat(&node.fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = set.size {
            if node.kind == libc::S_IFDIR {
                return Err(Errno::ISDIR);
            }
            if node.kind != libc::S_IFREG {
                return Err(Errno::INVAL);
            }
            match file
                .and_then(|f| self.files.get(f).ok())
                .filter(|o| o.write)
            {
                Some(open) => rustix::fs::ftruncate(&open.file, size)?,
                None => truncate(&path, size)?,
            }
        }
        if set.kill && self.is_root() && node.kind == libc::S_IFREG {
            kill_privileges(&node.fd);
        }
        if let Some(mode) = set.mode {
            if node.kind == libc::S_IFLNK {
                return Err(Errno::OPNOTSUPP);
            }
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times = Timestamps {
                last_access: timespec(set.atime),
                last_modification: timespec(set.mtime),
            };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
        }
        self.getattr(id, file)
    }

    pub fn readlink(&self, id: u64) -> Res<Vec<u8>> {
        let node = self.inodes.node(id)?;
        if node.kind != libc::S_IFLNK {
            return Err(Errno::INVAL);
        }
        let t = rustix::fs::readlinkat(&node.fd, "", Vec::new())?;
        Ok(self.shown.target(t.into_bytes()))
    }

    /// Makes a name, and answers with what it means.
    fn make(
        &self,
        dir: u64,
        name: &[u8],
        who: Who,
        made: impl FnOnce(&Node) -> Res<()>,
    ) -> Res<Reply> {
        let parent = self.inodes.node(dir)?;
        self.inodes.writable_name(&parent, name)?;
        let watched = self.watch(dir, &parent);
        crate::sys::umask(who.umask);
        self.make_own(watched, dir, name, || made(&parent))?;
        let mut e = self.entry(dir, &parent, name)?;
        if let Ok(n) = self.inodes.node(e.id)
            && who.gid != self.ids.1
        {
            self.give_group(&n.fd, &parent, who);
            e.attr = self.shown(&n, self.inodes.attr(&n)?);
        }
        self.keep(watched, dir, name, &mut e);
        Ok(Reply::Entry(e))
    }

    pub fn symlink(&self, dir: u64, name: &[u8], target: &[u8], who: Who) -> Res<Reply> {
        self.make(dir, name, who, |p| {
            rustix::fs::symlinkat(target, &p.fd, name)
        })
    }

    pub fn mknod(
        &self,
        dir: u64,
        name: &[u8],
        mode: u32,
        rdev: (u32, u32),
        who: Who,
    ) -> Res<Reply> {
        let kind = FileType::from_raw_mode(mode);
        let dev: Dev = rustix::fs::makedev(rdev.0, rdev.1);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.make(dir, name, who, |p| {
            rustix::fs::mknodat(&p.fd, name, kind, mode, dev)
        })
    }

    pub fn mkdir(&self, dir: u64, name: &[u8], mode: u32, who: Who) -> Res<Reply> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.make(dir, name, who, |p| rustix::fs::mkdirat(&p.fd, name, mode))
    }

    pub fn link(&self, id: u64, dir: u64, name: &[u8]) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        self.inodes.writable(&node)?;
        let parent = self.inodes.node(dir)?;
        self.inodes.writable_name(&parent, name)?;
        let watched = self.watch(dir, &parent);
        let how = AtFlags::SYMLINK_FOLLOW;
        self.make_own(watched, dir, name, || {
            rustix::fs::linkat(CWD, node.path(), &parent.fd, name, how)
        })?;
        let mut e = self.entry(dir, &parent, name)?;
        self.keep(watched, dir, name, &mut e);
        Ok(Reply::Entry(e))
    }

    pub fn unlink(&self, dir: u64, name: &[u8], flags: AtFlags) -> Res<Reply> {
        let parent = self.inodes.node(dir)?;
        self.inodes.writable_name(&parent, name)?;
        rustix::fs::unlinkat(&parent.fd, name, flags)?;
        Ok(Reply::Done)
    }

    pub fn rename(&self, dir: u64, name: &[u8], to: u64, new: &[u8], flags: u32) -> Res<Reply> {
        let (from, target) = (self.inodes.node(dir)?, self.inodes.node(to)?);
        self.inodes.writable_name(&from, name)?;
        self.inodes.writable_name(&target, new)?;
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&from.fd, name, &target.fd, new, flags)?;
        let moved = attr_at(&target.fd, new).ok().map(|a| a.identity());
        let exchanged = flags
            .contains(RenameFlags::EXCHANGE)
            .then(|| attr_at(&from.fd, name).ok().map(|a| a.identity()))
            .flatten();
        if let Some(who) = &moved {
            self.inodes.renamed(who, to, new);
        }
        if let Some(who) = &exchanged {
            self.inodes.renamed(who, dir, name);
        }
        Ok(Reply::Renamed { moved, exchanged })
    }

    pub fn statfs(&self, id: u64) -> Res<Reply> {
        let s = rustix::fs::fstatfs(&self.inodes.node(id)?.fd)?;
        Ok(Reply::Space(Space {
            blocks: s.f_blocks,
            free: s.f_bfree,
            available: s.f_bavail,
            files: s.f_files,
            files_free: s.f_ffree,
            block: s.f_bsize as u32,
            fragment: s.f_frsize as u32,
            name_max: s.f_namelen as u32,
        }))
    }

    pub fn getxattr(&self, id: u64, name: &[u8]) -> Res<Vec<u8>> {
        let node = self.inodes.node(id)?;
        if node.above.is_some() {
            return Err(Errno::NODATA);
        }
        let mut value = vec![0; XATTR_MAX];
        let n = rustix::fs::getxattr(node.path(), name, &mut value[..])?;
        value.truncate(n);
        Ok(value)
    }

    pub fn listxattr(&self, id: u64) -> Res<Vec<u8>> {
        let node = self.inodes.node(id)?;
        if node.above.is_some() {
            return Ok(Vec::new());
        }
        let mut value = vec![0; XATTR_MAX];
        let n = rustix::fs::listxattr(node.path(), &mut value[..])?;
        value.truncate(n);
        Ok(value)
    }

    pub fn setxattr(
        &self,
        id: u64,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kill_sgid: bool,
    ) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        self.inodes.writable(&node)?;
        rustix::fs::setxattr(
            node.path(),
            name,
            value,
            XattrFlags::from_bits_retain(flags),
        )?;
        if kill_sgid && self.is_root() {
            let a = self.inodes.attr(&node)?;
            if a.mode & libc::S_ISGID != 0 {
                let mode = Mode::from_raw_mode(a.mode & 0o7777 & !libc::S_ISGID);
                rustix::fs::chmod(node.path(), mode)?;
            }
        }
        Ok(Reply::Done)
    }

    pub fn removexattr(&self, id: u64, name: &[u8]) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        self.inodes.writable(&node)?;
        rustix::fs::removexattr(node.path(), name)?;
        Ok(Reply::Done)
    }
}

fn timespec(t: Option<SetTime>) -> Timespec {
    match t {
        Some(SetTime::At(t)) => Timespec {
            tv_sec: t.s,
            tv_nsec: t.ns.into(),
        },
        Some(SetTime::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
    }
}

fn truncate(path: &str, size: u64) -> Res<()> {
    crate::sys::truncate(path, size).map_err(crate::server::opens::errno)
}
