//! Names, attributes, extended attributes.

use crate::client::core::{Core, Link};
use crate::client::keep::KEEP;
use crate::client::root;
use crate::fuse::{self, Args, Attributes, Head, Times, entry_out, fattr, statfs_out};
use crate::protocol::{Attr, Lane, Reply, Request, Set, SetTime, Time, Who};
use crate::sync::lock;
use std::sync::Arc;

const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// KERNEL: new_decode_dev.
fn device(d: u32) -> (u32, u32) {
    ((d & 0xfff00) >> 8, (d & 0xff) | ((d >> 12) & 0xfff00))
}

impl Core {
    /// A call whose answer is a file, found below `dir` as `name`.
    fn named(
        self: &Arc<Self>,
        h: &Head,
        name: &[u8],
        make: impl FnOnce(u64, Vec<u8>) -> Request + Send + 'static,
    ) {
        let (dir, unique, uid, name) = (h.node, h.unique, h.uid, name.to_vec());
        self.on(h, dir, move |core, link, id| {
            let link = link.clone();
            core.after_others(link.node, uid, move |core| {
                let r = make(id, name.clone());
                core.entry_call(&link, unique, &r, dir, name);
            });
        });
    }

    fn entry_call(
        self: &Arc<Self>,
        link: &Arc<Link>,
        unique: u64,
        r: &Request,
        dir: u64,
        name: Vec<u8>,
    ) {
        let Some(of) = link.up() else {
            return self.error(unique, libc::EHOSTUNREACH);
        };
        let me = link.clone();
        let lane = self.lane_of_name(dir, &name);
        link.call(self, lane, unique, r, b"", move |core, end| match end {
            Ok((Reply::Entry(mut e), _)) => {
                // Changes are told of on the stream of names, perhaps before this answer.
                e.name_kept &= lane == Lane::Names;
                e.attr_kept &= lane == Lane::Names;
                core.answer_entry(&me, of, unique, e, (dir, name));
            }
            Ok((Reply::Absent { kept: true }, _)) if lane == Lane::Names => {
                let a = Attributes {
                    node: 0,
                    ino: 0,
                    attr: &Attr::default(),
                };
                let keep = Times {
                    name: KEEP,
                    ..Times::default()
                };
                core.device.reply(unique, 0, &[&entry_out(&a, keep)]);
            }
            Ok((Reply::Absent { .. }, _)) => core.error(unique, libc::ENOENT),
            Ok(_) => core.error(unique, libc::EIO),
            Err(e) => core.error(unique, e),
        });
    }

    pub fn lookup(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        self.named(h, a.name(), |dir, name| Request::Lookup { dir, name });
    }

    pub fn symlink(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (name, target) = (a.name(), a.name().to_vec());
        // KERNEL: a link has all rights, whatever the mask.
        let who = Who {
            gid: h.gid,
            umask: 0o022,
        };
        self.named(h, name, move |dir, name| Request::Symlink {
            dir,
            name,
            target,
            who,
        });
    }

    pub fn mknod(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (mode, rdev, umask, _) = (a.u32(), device(a.u32()), a.u32(), a.u32());
        let who = Who { gid: h.gid, umask };
        self.named(h, a.name(), move |dir, name| Request::Mknod {
            dir,
            name,
            mode,
            rdev,
            who,
        });
    }

    pub fn mkdir(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (mode, umask) = (a.u32(), a.u32());
        let who = Who { gid: h.gid, umask };
        self.named(h, a.name(), move |dir, name| Request::Mkdir {
            dir,
            name,
            mode,
            who,
        });
    }

    pub fn unlink(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (op, unique, name) = (h.op, h.unique, a.name().to_vec());
        self.on(h, h.node, move |core, link, dir| {
            let r = match op {
                fuse::RMDIR => Request::Rmdir { dir, name },
                _ => Request::Unlink { dir, name },
            };
            core.plain(link, unique, Lane::Names, &r);
        });
    }

    /// A call that answers with nothing.
    fn plain(self: &Arc<Self>, link: &Arc<Link>, unique: u64, lane: Lane, r: &Request) {
        link.call(self, lane, unique, r, b"", move |core, end| match end {
            Ok(_) => core.done(unique),
            Err(e) => core.error(unique, e),
        });
    }

    pub fn rename(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let to = a.u64();
        let mut flags = 0;
        if h.op == fuse::RENAME2 {
            flags = a.u32();
            a.skip(4);
        }
        let (name, new) = (a.name().to_vec(), a.name().to_vec());
        let (from, unique) = (h.node, h.unique);
        if !self.same_node(from, to) {
            return self.error(unique, libc::EXDEV);
        }
        self.on(h, from, move |core, link, dir| {
            core.on_link(link, to, move |core, link, end| {
                let to_id = match end {
                    Ok(id) => id,
                    Err(e) => return core.error(unique, e),
                };
                let r = Request::Rename {
                    dir,
                    name: name.clone(),
                    to: to_id,
                    new: new.clone(),
                    flags,
                };
                let node = link.node;
                link.call(
                    core,
                    Lane::Names,
                    unique,
                    &r,
                    b"",
                    move |core, end| match end {
                        Ok((Reply::Renamed { moved, exchanged }, _)) => {
                            {
                                let mut t = lock(&core.table);
                                if let Some(who) = moved {
                                    t.renamed(node, &who, to, &new);
                                }
                                if let Some(who) = exchanged {
                                    t.renamed(node, &who, from, &name);
                                }
                            }
                            core.done(unique);
                        }
                        Ok(_) => core.error(unique, libc::EIO),
                        Err(e) => core.error(unique, e),
                    },
                );
            });
        });
    }

    fn same_node(&self, a: u64, b: u64) -> bool {
        let t = lock(&self.table);
        match (t.get(a), t.get(b)) {
            (Some(a), Some(b)) => a.node == b.node,
            _ => false,
        }
    }

    pub fn link_file(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let old = a.u64();
        let (dir, unique, name) = (h.node, h.unique, a.name().to_vec());
        if !self.same_node(old, dir) {
            return self.error(unique, libc::EXDEV);
        }
        self.on(h, dir, move |core, link, dir_id| {
            core.on_link(link, old, move |core, link, end| match end {
                Ok(node) => {
                    let r = Request::Link {
                        node,
                        dir: dir_id,
                        name: name.clone(),
                    };
                    core.entry_call(link, unique, &r, dir, name);
                }
                Err(e) => core.error(unique, e),
            });
        });
    }

    pub fn getattr(self: &Arc<Self>, h: &Head) {
        let (n, unique, uid) = (h.node, h.unique, h.uid);
        self.on(h, n, move |core, link, node| {
            let link = link.clone();
            core.after_others(link.node, uid, move |core| {
                let r = Request::Getattr { node, file: None };
                core.attr_call(&link, n, unique, core.lane(n), &r);
            });
        });
    }

    fn attr_call(self: &Arc<Self>, link: &Arc<Link>, n: u64, unique: u64, lane: Lane, r: &Request) {
        let node = link.node;
        link.call(self, lane, unique, r, b"", move |core, end| match end {
            Ok((Reply::Attr { attr, kept }, _)) => {
                core.answer_attr(node, n, unique, &attr, kept && lane == Lane::Names);
            }
            Ok(_) => core.error(unique, libc::EIO),
            Err(e) => core.error(unique, e),
        });
    }

    pub fn setattr(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let valid = a.u32();
        a.skip(4);
        let (fh, size, _, atime, mtime, _) = (a.u64(), a.u64(), a.u64(), a.u64(), a.u64(), a.u64());
        let (atime_ns, mtime_ns, _) = (a.u32(), a.u32(), a.u32());
        let (mode, _, uid, gid) = (a.u32(), a.u32(), a.u32(), a.u32());
        let has = |bit: u32| valid & bit != 0;
        let time = |bit, now, s: u64, ns| {
            has(bit).then_some(match has(now) {
                true => SetTime::Now,
                false => SetTime::At(Time { s: s as i64, ns }),
            })
        };
        let set = Set {
            mode: has(fattr::MODE).then_some(mode),
            uid: has(fattr::UID).then_some(uid),
            gid: has(fattr::GID).then_some(gid),
            size: has(fattr::SIZE).then_some(size),
            atime: time(fattr::ATIME, fattr::ATIME_NOW, atime, atime_ns),
            mtime: time(fattr::MTIME, fattr::MTIME_NOW, mtime, mtime_ns),
            kill: has(fattr::KILL_SUIDGID),
        };
        let (n, unique) = (h.node, h.unique);
        if set.size.is_some()
            && let Some(i) = lock(&self.table).get_mut(n)
        {
            i.seen = None;
        }
        // A truncation of an open file is made with the rights of who opened it.
        if has(fattr::FH) && set.size.is_some() {
            return self.on_file(unique, fh, move |core, open, file| {
                core.on_link(&open.link, n, move |core, link, end| match end {
                    Ok(node) => {
                        let file = Some(file);
                        let r = Request::Setattr { node, file, set };
                        core.attr_call(link, n, unique, core.lane(n), &r);
                    }
                    Err(e) => core.error(unique, e),
                });
            });
        }
        self.on(h, n, move |core, link, node| {
            let r = Request::Setattr {
                node,
                file: None,
                set,
            };
            core.attr_call(link, n, unique, core.lane(n), &r);
        });
    }

    pub fn readlink(self: &Arc<Self>, h: &Head) {
        self.data_call(h, h.node, None, |node| Request::Readlink { node });
    }

    /// A call whose answer is bytes; `size`: 0 asks for their number.
    fn data_call(
        self: &Arc<Self>,
        h: &Head,
        n: u64,
        size: Option<u32>,
        make: impl FnOnce(u64) -> Request + Send + 'static,
    ) {
        let unique = h.unique;
        self.on(h, n, move |core, link, id| {
            let r = make(id);
            link.call(
                core,
                Lane::Names,
                unique,
                &r,
                b"",
                move |core, end| match (end, size) {
                    (Ok((_, data)), Some(0)) => {
                        let n = (data.len() as u64).to_le_bytes();
                        core.device.reply(unique, 0, &[&n]);
                    }
                    (Ok((_, data)), Some(max)) if data.len() > max as usize => {
                        core.error(unique, libc::ERANGE)
                    }
                    (Ok((_, data)), _) => core.device.reply(unique, 0, &[data]),
                    (Err(e), _) => core.error(unique, e),
                },
            );
        });
    }

    pub fn getxattr(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (size, _) = (a.u32(), a.u32());
        let name = a.name().to_vec();
        // The kernel asks for lists of access rights of every file that it opens; the server has said which there are.
        let acls = lock(&self.table).get(h.node).map(|i| i.acls);
        if let Some(acls) = acls.filter(|x| x.known)
            && (name == ACL_ACCESS && !acls.access || name == ACL_DEFAULT && !acls.default)
        {
            return self.error(h.unique, libc::ENODATA);
        }
        self.data_call(h, h.node, Some(size), |node| Request::Getxattr {
            node,
            name,
        });
    }

    pub fn listxattr(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let size = a.u32();
        self.data_call(h, h.node, Some(size), |node| Request::Listxattr { node });
    }

    fn acls_unknown(&self, n: u64) {
        if let Some(i) = lock(&self.table).get_mut(n) {
            i.acls.known = false;
        }
    }

    pub fn setxattr(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (size, flags, more, _) = (a.u32(), a.u32(), a.u32(), a.u32());
        let name = a.name().to_vec();
        let value = a.take(size as usize).to_vec();
        let (n, unique) = (h.node, h.unique);
        self.on(h, n, move |core, link, node| {
            let r = Request::Setxattr {
                node,
                name,
                flags,
                kill_sgid: more & fuse::SETXATTR_KILL_SGID != 0,
            };
            link.call(core, Lane::Names, unique, &r, &value, move |core, end| {
                core.acls_unknown(n);
                match end {
                    Ok(_) => core.done(unique),
                    Err(e) => core.error(unique, e),
                }
            });
        });
    }

    pub fn removexattr(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (n, unique, name) = (h.node, h.unique, a.name().to_vec());
        self.on(h, n, move |core, link, node| {
            core.acls_unknown(n);
            core.plain(
                link,
                unique,
                Lane::Names,
                &Request::Removexattr { node, name },
            );
        });
    }

    pub fn statfs(self: &Arc<Self>, h: &Head) {
        let unique = h.unique;
        self.on(h, h.node, move |core, link, node| {
            let r = Request::Statfs { node };
            link.call(
                core,
                Lane::Names,
                unique,
                &r,
                b"",
                move |core, end| match end {
                    Ok((Reply::Space(s), _)) => core.device.reply(unique, 0, &[&statfs_out(&s)]),
                    Ok(_) => core.error(unique, libc::EIO),
                    Err(e) => core.error(unique, e),
                },
            );
        });
    }

    /// Answers with a node's root directory.
    pub fn answer_root(self: &Arc<Self>, link: &Arc<Link>, unique: u64) {
        let Some((of, e, _)) = link.root() else {
            return self.error(unique, libc::EHOSTUNREACH);
        };
        let n = self.enter(link, of, &e, Some((0, b"")), true);
        let a = self.attributes(link.node, n, &e.attr);
        let keep = Times {
            name: root::KEEP_NODE,
            ..Times::default()
        };
        self.device.reply(unique, 0, &[&entry_out(&a, keep)]);
    }
}
