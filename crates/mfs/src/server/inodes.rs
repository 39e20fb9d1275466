//! Files that the mount refers to by numbers: descriptors for O_PATH, found again below the export when they were
//! given up.

use crate::protocol::{Acls, Attr, Identity, Time, is_name};
use crate::server::exports::{Checked, Place};
use crate::server::res::Res;
use crate::sync::lock;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The node's root, or what stands for it.
pub const ROOT: u64 = 1;
/// Components of a path at most: PATH_MAX / 2.
pub const DEPTH_MAX: usize = 2048;
/// Files known at once: some 300 bytes each.
const INODES_MAX: usize = 4 << 20;

/// A file, and what may be done with it.
#[derive(Clone)]
pub struct Node {
    pub fd: Arc<OwnedFd>,
    /// Index of the export; `None`: a directory above exports.
    pub export: Option<usize>,
    /// The path of a directory above exports.
    pub above: Option<Arc<PathBuf>>,
    pub kind: u32,
}

impl Node {
    /// A path that leads to the file itself, for calls that take no descriptor of O_PATH.
    /// KERNEL: proc_pid_fd(5): the link is followed to the file, and a symbolic link there is not followed.
    pub fn path(&self) -> String {
        proc_path(&self.fd)
    }
}

pub fn proc_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

struct Inode {
    who: Identity,
    kind: u32,
    export: Option<usize>,
    above: Option<Arc<PathBuf>>,
    fd: Option<Arc<OwnedFd>>,
    parent: u64,
    name: Vec<u8>,
    refs: u64,
    /// Used since descriptors were last given up.
    used: bool,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<u64, Inode>,
    by_identity: HashMap<Identity, u64>,
    next: u64,
    open: usize,
}

pub struct Inodes {
    exports: Arc<Checked>,
    table: Mutex<Table>,
    /// Descriptors that it may hold.
    open_max: usize,
}

/// What was found under a name.
pub struct Found {
    pub node: Node,
    pub attr: Attr,
}

pub fn attr_of(s: &Statx) -> Attr {
    let time = |t: rustix::fs::StatxTimestamp| Time {
        s: t.tv_sec,
        ns: t.tv_nsec,
    };
    Attr {
        dev: rustix::fs::makedev(s.stx_dev_major, s.stx_dev_minor),
        ino: s.stx_ino,
        size: s.stx_size,
        blocks: s.stx_blocks,
        atime: time(s.stx_atime),
        mtime: time(s.stx_mtime),
        ctime: time(s.stx_ctime),
        btime: if s.stx_mask & StatxFlags::BTIME.bits() != 0 {
            time(s.stx_btime)
        } else {
            Time::default()
        },
        mode: s.stx_mode.into(),
        nlink: s.stx_nlink,
        uid: s.stx_uid,
        gid: s.stx_gid,
        rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        blksize: s.stx_blksize,
    }
}

pub fn attr(fd: impl AsFd) -> Res<Attr> {
    let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(attr_of(&statx(fd, "", AtFlags::EMPTY_PATH, what)?))
}

pub fn attr_at(dir: impl AsFd, name: &[u8]) -> Res<Attr> {
    let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(attr_of(&statx(dir, name, how, what)?))
}

/// Where a descriptor's file is now.
pub fn path_of(fd: impl AsFd) -> Res<PathBuf> {
    let text = rustix::fs::readlinkat(rustix::fs::CWD, proc_path(fd), Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(
        text.into_bytes(),
    )))
}

/// Opens one component. KERNEL: openat2(2): nothing above `dir` can be reached, by no kind of link.
fn open_name(dir: impl AsFd, name: &[u8]) -> Res<OwnedFd> {
    openat2(
        dir,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Which access control lists a file has; both calls are answered from the inode in memory.
pub fn acls(node: &Node) -> Acls {
    let kind = match node.above {
        Some(_) => libc::S_IFLNK,
        None => node.kind,
    };
    acls_of(kind, |name| {
        rustix::fs::getxattr_query(node.path(), name).is_ok()
    })
}

pub fn acls_at(dir: &Node, name: &[u8], kind: u32) -> Acls {
    // Shorter than through /proc, which makes an inode for each descriptor. The thread has its own working directory.
    if kind == libc::S_IFLNK || rustix::process::fchdir(&dir.fd).is_err() {
        return Acls {
            known: kind == libc::S_IFLNK,
            ..Acls::default()
        };
    }
    acls_of(kind, |acl| rustix::fs::lgetxattr_query(name, acl).is_ok())
}

fn acls_of(kind: u32, has: impl Fn(&str) -> bool) -> Acls {
    let link = kind == libc::S_IFLNK;
    Acls {
        known: true,
        access: !link && has("system.posix_acl_access"),
        default: kind == libc::S_IFDIR && has("system.posix_acl_default"),
    }
}

fn fresh(fd: OwnedFd, export: Option<usize>, above: Option<Arc<PathBuf>>) -> Node {
    Node {
        fd: Arc::new(fd),
        export,
        above,
        kind: 0,
    }
}

impl Inodes {
    pub fn new(exports: Arc<Checked>, open_max: usize) -> Res<Inodes> {
        let root = Path::new("/");
        let (fd, export, above) = match exports.place(root) {
            Place::In(i) => (exports.open(i)?, Some(i), None),
            Place::Above => (
                rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
                None,
                Some(Arc::new(root.to_path_buf())),
            ),
            Place::Nowhere => return Err(Errno::ACCESS),
        };
        let inodes = Inodes {
            exports,
            table: Mutex::new(Table {
                next: ROOT,
                ..Table::default()
            }),
            open_max,
        };
        let node = Node {
            fd: Arc::new(fd),
            export,
            above,
            kind: libc::S_IFDIR,
        };
        let a = inodes.attr(&node)?;
        inodes.enter(&node, &a, ROOT, b"")?;
        Ok(inodes)
    }

    pub fn exports(&self) -> &Checked {
        &self.exports
    }

    /// Attributes as mounts see them: a directory above exports shows nothing of the one that is there.
    pub fn attr(&self, node: &Node) -> Res<Attr> {
        let mut a = attr(&node.fd)?;
        if node.above.is_some() {
            (a.mode, a.uid, a.gid, a.nlink) = (libc::S_IFDIR | 0o555, 0, 0, 2);
        }
        Ok(a)
    }

    /// Follows one name, not checked to be one.
    fn step(&self, dir: &Node, name: &[u8]) -> Res<Node> {
        if let Some(above) = &dir.above {
            let path = above.join(OsStr::from_bytes(name));
            return match self.exports.place(&path) {
                Place::In(i) => Ok(fresh(self.exports.open(i)?, Some(i), None)),
                Place::Above => {
                    let fd = open_name(&dir.fd, name)?;
                    Ok(fresh(fd, None, Some(Arc::new(path))))
                }
                Place::Nowhere => Err(Errno::NOENT),
            };
        }
        let fd = open_name(&dir.fd, name)?;
        let export = self.check(&fd, dir.export)?;
        Ok(fresh(fd, export, None))
    }

    /// The export in which a file lies that was reached from one in `from`: a directory may have been moved out of it.
    fn check(&self, fd: &OwnedFd, from: Option<usize>) -> Res<Option<usize>> {
        if self.exports.plain {
            return Ok(from);
        }
        let a = attr(fd)?;
        if self.exports.is_hidden_file(a.dev, a.ino) {
            return Err(Errno::NOENT);
        }
        match self.exports.place(&path_of(fd)?) {
            Place::In(i) => Ok(Some(i)),
            _ => Err(Errno::NOENT),
        }
    }

    /// The file with this name in a directory.
    pub fn find(&self, dir: &Node, name: &[u8]) -> Res<Found> {
        if !is_name(name) {
            return Err(if name.len() > crate::protocol::NAME_MAX {
                Errno::NAMETOOLONG
            } else {
                Errno::INVAL
            });
        }
        let mut node = self.step(dir, name)?;
        let attr = self.attr(&node)?;
        node.kind = attr.kind();
        Ok(Found { node, attr })
    }

    /// Whether a new name in this directory may be given, or an old one be taken away.
    pub fn writable(&self, node: &Node) -> Res<()> {
        match node.export {
            Some(i) if !self.exports.read_only(i) => Ok(()),
            _ => Err(Errno::ROFS),
        }
    }

    /// Names that cannot be reached cannot be made, replaced or removed either.
    pub fn writable_name(&self, dir: &Node, name: &[u8]) -> Res<()> {
        self.writable(dir)?;
        if name.len() > crate::protocol::NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if !is_name(name) {
            return Err(Errno::INVAL);
        }
        if self.exports.plain {
            return Ok(());
        }
        let path = path_of(&dir.fd)?.join(OsStr::from_bytes(name));
        match self.exports.place(&path) {
            Place::In(i) if !self.exports.read_only(i) => Ok(()),
            Place::In(_) => Err(Errno::ROFS),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Gives the file a number, or its number once more.
    pub fn enter(&self, node: &Node, a: &Attr, parent: u64, name: &[u8]) -> Res<u64> {
        let who = a.identity();
        let mut guard = lock(&self.table);
        let t = &mut *guard;
        if let Some(id) = t.by_identity.get(&who).copied()
            && let Some(i) = t.by_id.get_mut(&id)
        {
            i.refs += 1;
            i.used = true;
            if id != ROOT {
                (i.parent, i.name, i.export) = (parent, name.to_vec(), node.export);
            }
            if i.fd.is_none() {
                i.fd = Some(node.fd.clone());
                t.open += 1;
            }
            return Ok(id);
        }
        if t.by_id.len() >= INODES_MAX {
            return Err(Errno::NFILE);
        }
        let id = t.next;
        t.next += 1;
        t.by_identity.insert(who, id);
        t.open += 1;
        t.by_id.insert(
            id,
            Inode {
                who,
                kind: a.kind(),
                export: node.export,
                above: node.above.clone(),
                fd: Some(node.fd.clone()),
                parent,
                name: name.to_vec(),
                refs: 1,
                used: true,
            },
        );
        if t.open > self.open_max {
            give_up(t, self.open_max / 2);
        }
        Ok(id)
    }

    /// The same for a file that was seen in a listing and is opened when it is used.
    pub fn enter_seen(
        &self,
        a: &Attr,
        parent: u64,
        name: &[u8],
        export: Option<usize>,
    ) -> Res<u64> {
        let who = a.identity();
        let mut guard = lock(&self.table);
        let t = &mut *guard;
        if let Some(id) = t.by_identity.get(&who).copied()
            && let Some(i) = t.by_id.get_mut(&id)
        {
            i.refs += 1;
            if id != ROOT {
                (i.parent, i.name) = (parent, name.to_vec());
            }
            return Ok(id);
        }
        if t.by_id.len() >= INODES_MAX {
            return Err(Errno::NFILE);
        }
        let id = t.next;
        t.next += 1;
        t.by_identity.insert(who, id);
        t.by_id.insert(
            id,
            Inode {
                who,
                kind: a.kind(),
                export,
                above: None,
                fd: None,
                parent,
                name: name.to_vec(),
                refs: 1,
                used: true,
            },
        );
        Ok(id)
    }

    /// The file with this number.
    pub fn node(&self, id: u64) -> Res<Node> {
        self.reach(id, 0)
    }

    fn reach(&self, id: u64, depth: usize) -> Res<Node> {
        let (parent, name, who) = {
            let mut t = lock(&self.table);
            let i = t.by_id.get_mut(&id).ok_or(Errno::STALE)?;
            i.used = true;
            if let Some(fd) = &i.fd {
                return Ok(Node {
                    fd: fd.clone(),
                    export: i.export,
                    above: i.above.clone(),
                    kind: i.kind,
                });
            }
            (i.parent, i.name.clone(), i.who)
        };
        if depth >= DEPTH_MAX {
            return Err(Errno::STALE);
        }
        let dir = self.reach(parent, depth + 1)?;
        let found = self.find(&dir, &name).map_err(|_| Errno::STALE)?;
        if found.attr.identity() != who {
            return Err(Errno::STALE);
        }
        let mut guard = lock(&self.table);
        let t = &mut *guard;
        if let Some(i) = t.by_id.get_mut(&id)
            && i.fd.is_none()
        {
            i.fd = Some(found.node.fd.clone());
            i.export = found.node.export;
            t.open += 1;
            if t.open > self.open_max {
                give_up(t, self.open_max / 2);
            }
        }
        Ok(found.node)
    }

    /// Opens a regular file for what `flags` say. By its name where that is the same file still: a path through /proc
    /// takes longer.
    pub fn open_again(&self, id: u64, node: &Node, flags: OFlags) -> Res<OwnedFd> {
        let at = {
            let t = lock(&self.table);
            t.by_id.get(&id).and_then(|i| {
                let dir = t.by_id.get(&i.parent)?;
                let fd = dir.fd.clone().filter(|_| dir.above.is_none())?;
                Some((fd, i.name.clone(), i.who))
            })
        };
        if let Some((dir, name, who)) =
            at.filter(|(_, name, _)| is_name(name) && !flags.contains(OFlags::TRUNC))
        {
            // Should it be a pipe by now, it does not wait.
            let how = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            if let Ok(f) = openat2(&dir, &name[..], how, Mode::empty(), resolve)
                && attr(&f).is_ok_and(|a| a.identity() == who)
            {
                return Ok(f);
            }
        }
        rustix::fs::open(node.path(), flags, Mode::empty())
    }

    /// The file has this name now.
    pub fn renamed(&self, who: &Identity, parent: u64, name: &[u8]) {
        let mut t = lock(&self.table);
        let id = t.by_identity.get(who).copied();
        if let Some(i) = id.and_then(|id| t.by_id.get_mut(&id)) {
            (i.parent, i.name) = (parent, name.to_vec());
        }
    }

    /// True if nothing is left of it.
    pub fn forget(&self, id: u64, times: u64) -> bool {
        let mut guard = lock(&self.table);
        let t = &mut *guard;
        let Some(i) = t.by_id.get_mut(&id) else {
            return false;
        };
        i.refs = i.refs.saturating_sub(times);
        if i.refs > 0 || id == ROOT {
            return false;
        }
        let who = i.who;
        if t.by_id.remove(&id).is_some_and(|i| i.fd.is_some()) {
            t.open -= 1;
        }
        t.by_identity.remove(&who);
        true
    }
}

/// Closes descriptors that were not used lately, until `keep` are left or all were looked at twice. A file that has no
/// name any more cannot be found again, and stays.
fn give_up(t: &mut Table, keep: usize) {
    for _ in 0..2 {
        for (id, i) in &mut t.by_id {
            if t.open <= keep {
                return;
            }
            let used = std::mem::replace(&mut i.used, false);
            if used || *id == ROOT || i.above.is_some() || i.born_unknown() || i.unnamed() {
                continue;
            }
            if i.fd.take().is_some() {
                t.open -= 1;
            }
        }
    }
}

impl Inode {
    /// Without a time of birth another file may have the number meanwhile.
    fn born_unknown(&self) -> bool {
        self.who.born == 0
    }

    fn unnamed(&self) -> bool {
        self.fd
            .as_ref()
            .is_some_and(|fd| attr(fd).is_ok_and(|a| a.nlink == 0))
    }
}
