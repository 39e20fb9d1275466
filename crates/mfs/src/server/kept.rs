//! What a mount keeps, and how it is told of changes.

use crate::protocol::{Attr, EVENT, Entry, encode};
use crate::server::inodes::Node;
use crate::server::res::Res;
use crate::server::session::{Session, send};
use crate::server::watch::Watch;
use crate::sync::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

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
