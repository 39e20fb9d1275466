//! Directories with their names, remembered until they change.

use crate::tree::{Failed, Found, list};
use armento_provision::view::split;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Names remembered of all directories together: some 100 MiB.
const NAMES_MAX: usize = 1 << 20;
/// A directory that has changed since so short a time may change again without another time of change. KERNEL: before
/// Linux 6.13 times of files are those of the last tick, 10 ms at most.
const FRESH_NS: i128 = 20_000_000;
/// Cookies below are those of the beginning, `.` and `..`.
const COOKIES_TAKEN: u64 = 3;

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its place in listings: a hash of the name, so that a listing goes on where it was after any change, on any
    /// server. Two names have the same one once in 2^63.
    pub cookie: u64,
    pub name: Box<[u8]>,
    pub inode: u64,
}

/// A directory as it was at one moment.
#[derive(Debug)]
pub struct Listing {
    /// In the order of their cookies.
    pub names: Vec<Named>,
    /// The names with tags, of which there are none in most directories.
    pub tagged: BTreeSet<String>,
    changed: Times,
}

#[cfg(test)]
impl Listing {
    pub fn of(names: Vec<Named>, tagged: BTreeSet<String>) -> Listing {
        Listing {
            names,
            tagged,
            changed: [(0, 0); 2],
        }
    }
}

type Times = [(i64, u64); 2];

/// Directories that were looked at.
#[derive(Debug, Default)]
pub struct Dirs {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By device and inode.
    all: HashMap<(u64, u64), Arc<Listing>>,
    names: usize,
}

impl Dirs {
    /// The names of a directory now. Before: root.
    pub fn listing(&self, dir: &Found) -> Result<Arc<Listing>, Failed> {
        let key = (dir.stat.st_dev, dir.stat.st_ino);
        let changed = changed(dir);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listing) = known.all.get(&key)
            && listing.changed == changed
        {
            return Ok(listing.clone());
        }
        drop(known);
        // Before it is read: a change while it is read counts as later.
        let settled = is_settled(changed, clock_gettime(ClockId::Realtime));
        let listing = Arc::new(read(dir, changed)?);
        if settled {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.keep(key, listing.clone());
        }
        Ok(listing)
    }
}

impl Known {
    fn keep(&mut self, key: (u64, u64), listing: Arc<Listing>) {
        if let Some(before) = self.all.remove(&key) {
            self.names -= before.names.len();
        }
        if self.names + listing.names.len() > NAMES_MAX {
            self.all.clear();
            self.names = 0;
        }
        if listing.names.len() <= NAMES_MAX {
            self.names += listing.names.len();
            self.all.insert(key, listing);
        }
    }
}

/// When its names changed last; both times, since a program can set the first one.
fn changed(dir: &Found) -> Times {
    let s = &dir.stat;
    [(s.st_mtime, s.st_mtime_nsec), (s.st_ctime, s.st_ctime_nsec)]
}

/// Whether a later change would show another time.
fn is_settled(changed: Times, now: Timespec) -> bool {
    let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    let (s, n) = changed[1];
    let since = ns(now.tv_sec, now.tv_nsec) - ns(s, n as i64);
    since.abs() > FRESH_NS
}

/// Before: the times are not younger than the names.
fn read(dir: &Found, changed: Times) -> Result<Listing, Failed> {
    let mut tagged = BTreeSet::new();
    let mut names = Vec::new();
    for entry in list(dir)? {
        if let Ok(text) = std::str::from_utf8(&entry.name)
            && split(text).1.is_some()
        {
            tagged.insert(text.to_owned());
        }
        names.push(Named {
            cookie: (xxh3_64(&entry.name) >> 1).max(COOKIES_TAKEN),
            name: entry.name,
            inode: entry.inode,
        });
    }
    names.sort_by(|a, b| (a.cookie, &a.name).cmp(&(b.cookie, &b.name)));
    Ok(Listing {
        names,
        tagged,
        changed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settled_directories_are_remembered() {
        let now = Timespec {
            tv_sec: 100,
            tv_nsec: 5_000_000,
        };
        let check = |s, ns, expected| assert_eq!(is_settled([(0, 0), (s, ns)], now), expected);
        check(100, 0, false);
        check(99, 999_000_000, false);
        check(99, 900_000_000, true);
        check(100, 10_000_000, false);
        check(500, 0, true);
    }

    #[test]
    fn remembered_names_are_bounded() {
        let mut known = Known::default();
        let listing = |count: usize| {
            let one = Named {
                cookie: 9,
                name: Box::default(),
                inode: 1,
            };
            Arc::new(Listing {
                names: vec![one; count],
                tagged: BTreeSet::new(),
                changed: [(0, 0); 2],
            })
        };
        known.keep((1, 1), listing(NAMES_MAX));
        known.keep((1, 2), listing(10));
        assert_eq!((known.all.len(), known.names), (1, 10));
        known.keep((1, 2), listing(20));
        assert_eq!((known.all.len(), known.names), (1, 20));
        known.keep((1, 3), listing(NAMES_MAX + 1));
        assert_eq!((known.all.len(), known.names), (0, 0));
    }
}
