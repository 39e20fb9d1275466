//! Names and attributes that a mount keeps, and what ends that: events of inotify(7).
//!
//! The event is queued before the change's call returns, so what was looked at after the watch began is told of. Who
//! answers a lookup holds the stream of names until the answer is sent, and so does who tells of events: the mount hears
//! of a change after the answer that it voids.

use crate::protocol::{Attr, EVENT, Entry, Event, encode};
use crate::server::Res;
use crate::server::inodes::{Inodes, Node};
use crate::server::session::{Session, send};
use crate::sync::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

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
struct Kept {
    watches: HashMap<u64, i32>,
    dirs: HashMap<i32, u64>,
    /// Directories that cannot be watched.
    refused: HashSet<u64>,
    names: HashMap<(u64, Vec<u8>), Option<u64>>,
    /// Files whose attributes follow from the name under which they were found.
    found: HashMap<u64, (u64, Vec<u8>)>,
    /// Files whose attributes the mount keeps now.
    attrs: HashSet<u64>,
    /// Names that the mount itself makes: their events say nothing new.
    own: HashMap<(u64, Vec<u8>), u32>,
}

pub struct Watch {
    fd: OwnedFd,
    kept: Mutex<Kept>,
}

impl Watch {
    pub fn new() -> Option<Watch> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(Watch {
            fd,
            kept: Mutex::default(),
        })
    }

    fn add(&self, id: u64, node: &Node) -> bool {
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

    fn room(&self) -> bool {
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

    fn event(&mut self, wd: i32, what: ReadFlags, name: Option<&[u8]>, out: &mut Vec<Event>) {
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

impl Session {
    /// Whether changes in this directory are told of from now on.
    pub fn watch(&self, id: u64, dir: &Node) -> bool {
        self.watch.as_ref().is_some_and(|w| w.add(id, dir))
    }

    pub fn keep(&self, watched: bool, dir: u64, name: &[u8], e: &mut Entry) {
        let Some(w) = self.watch.as_ref().filter(|w| watched && w.room()) else {
            return;
        };
        let mut k = lock(&w.kept);
        k.names.insert((dir, name.to_vec()), Some(e.id));
        e.name_kept = true;
        let is_dir = e.attr.kind() == libc::S_IFDIR;
        if !is_dir && e.attr.nlink == 1 {
            k.found.insert(e.id, (dir, name.to_vec()));
        } else {
            k.found.remove(&e.id);
        }
        e.attr_kept = if is_dir {
            k.watches.contains_key(&e.id)
        } else {
            e.attr.nlink == 1
        };
        if e.attr_kept {
            k.attrs.insert(e.id);
        }
    }

    /// Makes a name in a directory that is watched.
    pub fn make_own<T>(
        &self,
        watched: bool,
        dir: u64,
        name: &[u8],
        make: impl FnOnce() -> Res<T>,
    ) -> Res<T> {
        let Some(w) = self.watch.as_ref().filter(|_| watched) else {
            return make();
        };
        let key = (dir, name.to_vec());
        *lock(&w.kept).own.entry(key.clone()).or_default() += 1;
        let made = make();
        if made.is_err() {
            let mut k = lock(&w.kept);
            if let Some(n) = k.own.get_mut(&key) {
                *n -= 1;
                if *n == 0 {
                    k.own.remove(&key);
                }
            }
        }
        made
    }

    pub fn keep_absent(&self, dir: u64, name: &[u8]) -> bool {
        let Some(w) = self.watch.as_ref().filter(|w| w.room()) else {
            return false;
        };
        lock(&w.kept).names.insert((dir, name.to_vec()), None);
        true
    }

    /// Whether the name is kept under which this file was found, or it is a directory that is watched.
    pub fn is_kept(&self, id: u64) -> bool {
        self.watch.as_ref().is_some_and(|w| {
            let k = lock(&w.kept);
            k.found.contains_key(&id) || k.watches.contains_key(&id)
        })
    }

    pub fn keep_attr(&self, id: u64, a: &Attr) -> bool {
        let Some(w) = &self.watch else { return false };
        let mut k = lock(&w.kept);
        let good = match a.kind() {
            libc::S_IFDIR => k.watches.contains_key(&id),
            _ => a.nlink == 1 && k.found.contains_key(&id),
        };
        if good {
            k.attrs.insert(id);
        }
        good
    }
}

/// Tells the mount of events until the session ends.
pub fn tell(session: Weak<Session>, watch: Arc<Watch>) {
    let mut buf = vec![MaybeUninit::uninit(); 64 << 10];
    loop {
        // The session's end is noticed after a second.
        let second = rustix::time::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&watch.fd, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&second));
        let Some(s) = session.upgrade() else { return };
        if !matches!(ready, Ok(1..)) {
            continue;
        }
        let lane = s.names_lane();
        // Held while events are taken: no answer overtakes them.
        let mut out = lane.as_ref().map(|l| lock(l));
        let mut events = Vec::new();
        let mut reader = inotify::Reader::new(&watch.fd, &mut buf);
        {
            let mut k = lock(&watch.kept);
            loop {
                match reader.next() {
                    Ok(e) => k.event(
                        e.wd(),
                        e.events(),
                        e.file_name().map(std::ffi::CStr::to_bytes),
                        &mut events,
                    ),
                    Err(Errno::INTR) => continue,
                    Err(_) => break,
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        if let Some(w) = &mut out {
            for e in &events {
                send(w, &encode(EVENT, e, b""));
            }
        }
    }
}

impl Inodes {
    pub fn close_watch(&self, w: Option<&Arc<Watch>>, id: u64) {
        if let Some(w) = w {
            w.forget(id);
        }
    }
}
