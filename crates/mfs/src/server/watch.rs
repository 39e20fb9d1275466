//! Names and attributes that a mount keeps, and what ends that: events of inotify(7).
//!
//! The event is queued before the change's call returns, so what was looked at after the watch began is told of. Who
//! answers a lookup holds the stream of names until the answer is sent, and so does who tells of events: the mount hears
//! of a change after the answer that it voids.

use crate::protocol::Event;
use crate::server::inodes::Node;
use crate::sync::lock;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

/// Directories that a session watches at most: 1 KiB of the kernel's memory each; users have 8192 and more
/// (KERNEL: inotify(7), max_user_watches).
const DIRS_MAX: usize = 4096;
/// Names that a mount keeps at most.
const NAMES_MAX: usize = 400_000;
/// File systems whose changes are all made by this kernel: ext2/3/4, xfs, btrfs, f2fs, tmpfs, ramfs, overlay.
const LOCAL: [u64; 7] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
];
const WHAT: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

#[derive(Default)]
pub struct Kept {
    pub watches: HashMap<u64, i32>,
    pub dirs: HashMap<i32, u64>,
    /// Directories that cannot be watched.
    refused: HashSet<u64>,
    pub names: HashMap<(u64, Vec<u8>), Option<u64>>,
    /// Files whose attributes follow from the name under which they were found.
    pub found: HashMap<u64, (u64, Vec<u8>)>,
    /// Files whose attributes the mount keeps now.
    pub attrs: HashSet<u64>,
    /// Names that the mount itself makes: their events say nothing new.
    pub own: HashMap<(u64, Vec<u8>), u32>,
}

pub struct Watch {
    pub fd: OwnedFd,
    pub kept: Mutex<Kept>,
}

impl Watch {
    pub fn new() -> Option<Watch> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(Watch {
            fd,
            kept: Mutex::default(),
        })
    }

    pub fn add(&self, id: u64, node: &Node) -> bool {
        let mut k = lock(&self.kept);
        if k.watches.contains_key(&id) {
            return true;
        }
        if k.refused.contains(&id) || k.watches.len() >= DIRS_MAX || node.above.is_some() {
            return false;
        }
        let local = rustix::fs::fstatfs(&node.fd).is_ok_and(|s| LOCAL.contains(&(s.f_type as u64)));
        let wd = match local {
            true => inotify::add_watch(&self.fd, node.path(), WHAT).ok(),
            false => None,
        };
        match wd {
            Some(wd) => {
                k.watches.insert(id, wd);
                k.dirs.insert(wd, id);
                true
            }
            None => {
                if k.refused.len() < DIRS_MAX {
                    k.refused.insert(id);
                }
                false
            }
        }
    }

    pub fn room(&self) -> bool {
        lock(&self.kept).names.len() < NAMES_MAX
    }

    /// The mount forgets a file.
    pub fn forget(&self, id: u64) {
        let mut k = lock(&self.kept);
        k.refused.remove(&id);
        k.attrs.remove(&id);
        if let Some(at) = k.found.remove(&id)
            && k.names.get(&at) == Some(&Some(id))
        {
            k.names.remove(&at);
        }
        if let Some(wd) = k.watches.remove(&id) {
            k.dirs.remove(&wd);
            k.names.retain(|(dir, _), _| *dir != id);
            let _ = inotify::remove_watch(&self.fd, wd);
        }
    }

    /// The mount keeps nothing any more.
    pub fn clear(&self) {
        let mut k = lock(&self.kept);
        k.names.clear();
        k.found.clear();
        k.attrs.clear();
    }
}

impl Kept {
    fn drop_attr(&mut self, id: u64, out: &mut Vec<Event>) {
        if self.attrs.remove(&id) {
            out.push(Event::Attr { node: id });
        }
    }

    pub fn event(&mut self, wd: i32, what: ReadFlags, name: Option<&[u8]>, out: &mut Vec<Event>) {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            (self.names, self.found, self.attrs) = Default::default();
            self.own.clear();
            out.clear();
            out.push(Event::All);
            return;
        }
        let Some(dir) = self.dirs.get(&wd).copied() else {
            return;
        };
        if what.contains(ReadFlags::IGNORED) {
            self.dirs.remove(&wd);
            self.watches.remove(&dir);
        }
        let Some(name) = name else {
            self.drop_attr(dir, out);
            return;
        };
        let moved =
            ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
        let key = (dir, name.to_vec());
        if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
            && let Some(n) = self.own.get_mut(&key)
        {
            *n -= 1;
            if *n == 0 {
                self.own.remove(&key);
            }
            return;
        }
        if what.intersects(moved) {
            self.drop_attr(dir, out);
            if let Some(child) = self.names.remove(&key) {
                if let Some(c) = child {
                    self.attrs.remove(&c);
                    self.found.remove(&c);
                }
                out.push(Event::Name {
                    dir,
                    name: key.1,
                    child,
                    gone: true,
                });
            }
        } else if let Some(Some(child)) = self.names.get(&key) {
            let child = *child;
            self.drop_attr(child, out);
        }
    }
}
