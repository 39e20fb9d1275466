//! Posted writes on their way home: those that follow each other are put together, and what is not made yet is bounded.

use armento_abi::Packed;
use armento_model::HomeTid;
use armento_wire::call::{Call, POSTED};
use std::time::{Duration, Instant};

/// Bytes that are sent as soon as there are so many.
const BATCH: usize = 128 << 10;
/// Bytes on their way that home has not confirmed: beyond, a write is waited for. Of a gigabit line 60 ms.
const WINDOW: u64 = 8 << 20;
/// The longest single write that is posted.
pub const WRITE_MAX: u64 = 1 << 20;
/// How long written bytes stay here for more to come.
pub const LINGER: Duration = Duration::from_micros(300);

/// Where a write begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub tid: HomeTid,
    pub fd: i32,
    /// Offset in the file; `None`: the description's own.
    pub at: Option<u64>,
}

#[derive(Default)]
pub struct Posts {
    batch: Option<Batch>,
    /// Bytes posted so far, and those that home has made.
    posted: u64,
    made: u64,
}

struct Batch {
    target: Target,
    bytes: Vec<u8>,
    begun: Instant,
}

impl Posts {
    /// Whether a write of so many bytes may be posted now.
    pub fn takes(&self, len: u64) -> bool {
        len <= WRITE_MAX && self.posted - self.made + len <= WINDOW
    }

    /// A batch that this write does not continue: it goes first.
    pub fn before(&mut self, t: Target) -> Option<Call> {
        let other = self.batch.as_ref().is_some_and(|b| !b.continues(t));
        other.then(|| self.take()).flatten()
    }

    /// Adds a write, whose bytes `read` appends. `None`: they cannot be read. Before: [`Posts::takes`],
    /// [`Posts::before`].
    pub fn add(
        &mut self,
        target: Target,
        now: Instant,
        read: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let b = self.batch.get_or_insert_with(|| Batch {
            target,
            bytes: Vec::new(),
            begun: now,
        });
        let len = b.bytes.len();
        let read = read(&mut b.bytes);
        self.posted += (b.bytes.len() - len) as u64;
        if b.bytes.is_empty() {
            self.batch = None;
        }
        read
    }

    /// The batch, if it is long enough to be sent now.
    pub fn full(&mut self) -> Option<Call> {
        let full = self.batch.as_ref().is_some_and(|b| b.bytes.len() >= BATCH);
        full.then(|| self.take()).flatten()
    }

    /// The batch, if it has waited long enough for more.
    pub fn old(&mut self, now: Instant) -> Option<Call> {
        let old = |b: &Batch| now.duration_since(b.begun) >= LINGER;
        let old = self.batch.as_ref().is_some_and(old);
        old.then(|| self.take()).flatten()
    }

    /// The batch, before anything else is sent. Its number is set by the sender.
    pub fn take(&mut self) -> Option<Call> {
        let Batch { target, bytes, .. } = self.batch.take()?;
        let nr = match target.at {
            None => libc::SYS_write,
            Some(_) => libc::SYS_pwrite64,
        };
        let at = target.at.unwrap_or(0);
        let args = [target.fd as u64, 0, bytes.len() as u64, at, 0, 0];
        let packed = Packed {
            nr: nr as u16,
            args,
            data: bytes,
            arg_ptrs: 0b10,
            ..Packed::default()
        };
        Some(posted(target.tid, packed))
    }

    pub fn is_empty(&self) -> bool {
        self.batch.is_none()
    }

    pub fn pending(&self) -> bool {
        self.posted > self.made
    }

    /// Home has made so many bytes so far.
    pub fn made(&mut self, bytes: u64) {
        self.made = self.made.max(bytes).min(self.posted);
    }
}

impl Batch {
    fn continues(&self, t: Target) -> bool {
        let len = self.bytes.len() as u64;
        let next = Target {
            at: self.target.at.map(|at| at + len),
            ..self.target
        };
        t == next
    }
}

/// The close of a descriptor that cannot fail.
pub fn close(tid: HomeTid, fd: i32) -> Call {
    let packed = Packed {
        nr: libc::SYS_close as u16,
        args: [fd as u64, 0, 0, 0, 0, 0],
        ..Packed::default()
    };
    posted(tid, packed)
}

fn posted(tid: HomeTid, packed: Packed) -> Call {
    Call {
        tid,
        seq: 0,
        flags: POSTED,
        mask: 0,
        packed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(fd: i32, at: Option<u64>) -> Target {
        Target {
            tid: HomeTid::of_home(7),
            fd,
            at,
        }
    }

    fn add(p: &mut Posts, t: Target, bytes: &[u8]) -> Option<Call> {
        assert!(p.takes(bytes.len() as u64));
        let before = p.before(t);
        let read = |to: &mut Vec<u8>| {
            to.extend_from_slice(bytes);
            Some(())
        };
        p.add(t, Instant::now(), read).expect("it can be read");
        before
    }

    #[test]
    fn writes_that_follow_each_other_become_one() {
        let mut p = Posts::default();
        assert!(add(&mut p, to(3, None), b"ab").is_none());
        assert!(add(&mut p, to(3, None), b"cd").is_none());
        let c = add(&mut p, to(4, Some(10)), b"ef").expect("another descriptor");
        assert_eq!((c.packed.data, c.packed.args[2]), (b"abcd".to_vec(), 4));
        assert!(add(&mut p, to(4, Some(12)), b"g").is_none());
        let c = add(&mut p, to(4, Some(99)), b"h").expect("another place");
        assert_eq!(i64::from(c.packed.nr), libc::SYS_pwrite64);
        assert_eq!((c.packed.data, c.packed.args[3]), (b"efg".to_vec(), 10));
        assert!(p.take().is_some() && p.is_empty());
    }

    #[test]
    fn what_cannot_be_read_leaves_nothing() {
        let mut p = Posts::default();
        assert!(p.add(to(3, None), Instant::now(), |_| None).is_none());
        assert!(p.is_empty() && p.posted == 0);
    }

    #[test]
    fn what_is_not_made_yet_is_bounded() {
        let mut p = Posts::default();
        let long = vec![0; WRITE_MAX as usize];
        let mut n = 0;
        while p.takes(WRITE_MAX) {
            add(&mut p, to(3, None), &long);
            assert!(p.full().is_some());
            n += 1;
        }
        assert_eq!(n * WRITE_MAX, WINDOW);
        p.made(WRITE_MAX);
        assert!(p.takes(WRITE_MAX) && !p.takes(WRITE_MAX + 1));
        p.made(u64::MAX);
        assert_eq!(p.made, p.posted, "no peer makes room that is not there");
    }

    #[test]
    fn a_batch_that_waited_is_sent() {
        let mut p = Posts::default();
        add(&mut p, to(3, None), b"x");
        let begun = Instant::now();
        assert!(p.old(begun - LINGER).is_none());
        assert!(p.old(begun + LINGER).is_some());
    }
}
