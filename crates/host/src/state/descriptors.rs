//! What home has said of a process's descriptors: which may be closed, and written to, without waiting for home.
//!
//! Home's word is about the descriptor at the time it looked. The number may have been given to another file meanwhile: a
//! word about a call that was sent before such a change is dropped.

use armento_wire::talk::{Device, POSTS_MS};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Descriptors that are remembered; beyond, all are forgotten and asked for again.
const KNOWN_MAX: usize = 4096;
/// After so many forwarded reads and writes home is asked about a descriptor; each time that it says nothing, four times as many.
const CALLS: u32 = 2;
const CALLS_MAX: u32 = 1 << 16;
/// When home allowed no writes to a regular file, it is asked again after this.
const REFUSED: Duration = Duration::from_secs(1);

/// Tells a call from those before the last change of a descriptor.
pub type Stamp = u64;

#[derive(Default)]
pub struct Descriptors {
    now: Stamp,
    /// Calls up to this one know nothing of any descriptor …
    changed: Stamp,
    /// … and of these neither, up to their own.
    changes: HashMap<i32, Stamp>,
    known: HashMap<i32, Known>,
    unknown: HashMap<i32, Unknown>,
}

/// A regular file of home's, or a device that is here as well.
struct Known {
    device: Option<Device>,
    writes: u64,
    until: Instant,
    failed: Option<i32>,
}

struct Unknown {
    calls: u32,
    needed: u32,
}

/// How a write goes home.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// Posted.
    Post,
    /// Waited for; `ask`: home is to say whether the next may be posted.
    Forward { ask: bool },
    /// A posted call on this descriptor has failed before: it fails with that error.
    Fail(i32),
}

impl Descriptors {
    pub fn stamp(&self) -> Stamp {
        self.now
    }

    /// The descriptor is being closed or replaced, or was.
    pub fn forget(&mut self, fd: i32) {
        self.now += 1;
        if self.changes.len() >= KNOWN_MAX {
            return self.forget_all();
        }
        self.changes.insert(fd, self.now);
        self.known.remove(&fd);
        self.unknown.remove(&fd);
    }

    pub fn forget_all(&mut self) {
        self.now += 1;
        self.changed = self.now;
        self.changes.clear();
        self.known.clear();
        self.unknown.clear();
    }

    /// Home's word about a call that was sent at `asked`.
    pub fn learn(
        &mut self,
        asked: Stamp,
        fd: i32,
        (writes, device): (u64, Option<Device>),
        now: Instant,
    ) {
        let changed = self.changes.get(&fd).copied().unwrap_or(0);
        if asked < changed.max(self.changed) {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            return self.forget_all();
        }
        let holds = match writes {
            0 => REFUSED,
            _ => Duration::from_millis(POSTS_MS),
        };
        let failed = self.known.get(&fd).and_then(|k| k.failed);
        let until = now + holds;
        self.unknown.remove(&fd);
        self.known.insert(
            fd,
            Known {
                device,
                writes,
                until,
                failed,
            },
        );
    }

    /// The device that a descriptor refers to.
    pub fn device(&self, fd: i32) -> Option<Device> {
        self.known.get(&fd)?.device
    }

    /// How a write of so many bytes goes home.
    pub fn write(&mut self, fd: i32, len: u64, now: Instant) -> Way {
        let Some(k) = self.known.get_mut(&fd) else {
            return Way::Forward {
                ask: self.worth_asking(fd),
            };
        };
        if let Some(errno) = k.failed.take() {
            return Way::Fail(errno);
        }
        if now >= k.until {
            return Way::Forward { ask: true };
        }
        match k.writes.checked_sub(len) {
            Some(left) => {
                k.writes = left;
                Way::Post
            }
            // Used up, or never allowed.
            None => Way::Forward { ask: k.writes > 0 },
        }
    }

    /// Whether home is to be asked about a descriptor that is read: it may be a device that is here as well.
    pub fn read(&mut self, fd: i32) -> bool {
        !self.known.contains_key(&fd) && self.worth_asking(fd)
    }

    fn worth_asking(&mut self, fd: i32) -> bool {
        if self.unknown.len() >= KNOWN_MAX {
            self.unknown.clear();
        }
        let u = self.unknown.entry(fd).or_insert(Unknown {
            calls: 0,
            needed: CALLS,
        });
        u.calls += 1;
        let ask = u.calls >= u.needed;
        if ask {
            u.calls = 0;
            u.needed = (u.needed * 4).min(CALLS_MAX);
        }
        ask
    }

    /// Whether a close needs no answer. Of one that may fail the error is given back.
    pub fn close(&mut self, fd: i32) -> Option<Result<(), i32>> {
        let known = self.known.get(&fd).map(|k| k.failed.map_or(Ok(()), Err));
        self.forget(fd);
        known
    }

    /// The error of a posted call, for a call that reports such: fsync and the like.
    pub fn failed(&mut self, fd: i32) -> Option<i32> {
        self.known.get_mut(&fd)?.failed.take()
    }

    pub fn fail(&mut self, fd: i32, errno: i32) {
        if let Some(k) = self.known.get_mut(&fd) {
            (k.failed, k.writes) = (Some(errno), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Way = Way::Forward { ask: true };
    const WAIT: Way = Way::Forward { ask: false };

    #[test]
    fn writes_are_posted_within_the_grant_and_its_time() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        assert_eq!([d.write(3, 1, t), d.write(3, 1, t)], [WAIT, ASK]);
        let asked = d.stamp();
        d.learn(asked, 3, (100, None), t);
        assert_eq!(d.write(3, 60, t), Way::Post);
        assert_eq!(d.write(3, 60, t), ASK, "more than is left");
        assert_eq!(d.write(3, 40, t), Way::Post);
        d.learn(d.stamp(), 3, (100, None), t);
        let late = t + Duration::from_millis(POSTS_MS);
        assert_eq!(d.write(3, 1, late), ASK);
    }

    #[test]
    fn a_word_about_what_the_number_was_before_is_dropped() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        let asked = d.stamp();
        d.forget(3);
        d.learn(asked, 3, (100, None), t);
        assert_ne!(d.write(3, 1, t), Way::Post);
        d.learn(asked, 4, (100, None), t);
        assert_eq!(d.write(4, 1, t), Way::Post, "another one has not changed");
        let asked = d.stamp();
        d.forget_all();
        d.learn(asked, 4, (100, None), t);
        assert_ne!(d.write(4, 1, t), Way::Post);
        d.learn(d.stamp(), 4, (100, None), t);
        assert_eq!(d.write(4, 1, t), Way::Post);
    }

    #[test]
    fn descriptors_of_other_kinds_are_asked_about_ever_less_often() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        let asks = (0..200).filter(|_| d.write(1, 1, t) == ASK).count();
        assert_eq!(asks, 4, "after 2, 8, 32 and 128 more");
    }

    #[test]
    fn a_regular_file_that_takes_no_posts_can_be_closed_by_one() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        d.learn(0, 3, (0, None), t);
        assert_eq!([d.write(3, 1, t), d.write(3, 1, t + REFUSED)], [WAIT, ASK]);
        assert_eq!(d.close(3), Some(Ok(())));
        assert_eq!(d.close(3), None);
    }

    #[test]
    fn home_is_asked_about_what_is_read_until_it_is_known() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        assert_eq!([d.read(0), d.read(0)], [false, true]);
        d.learn(0, 0, (0, None), t);
        assert!((0..100).all(|_| !d.read(0)));
    }

    #[test]
    fn an_error_is_reported_once() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        d.learn(0, 3, (100, None), t);
        d.fail(3, libc::EIO);
        assert_eq!(d.write(3, 1, t), Way::Fail(libc::EIO));
        assert_eq!(d.write(3, 1, t), WAIT);
        d.fail(3, libc::ENOSPC);
        assert_eq!(d.close(3), Some(Err(libc::ENOSPC)));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut d, t) = (Descriptors::default(), Instant::now());
        for fd in 0..3 * KNOWN_MAX as i32 {
            d.write(fd, 1, t);
            d.learn(d.stamp(), fd, (1, None), t);
            d.forget(fd + 1);
        }
        let sizes = [d.known.len(), d.unknown.len(), d.changes.len()];
        assert!(sizes.iter().all(|n| *n <= KNOWN_MAX), "{sizes:?}");
    }
}
