//! Posted writes on their way home: those that follow each other are put together, and what is not made yet is bounded.

use armento_abi::Packed;
use armento_model::HomeTid;
use armento_wire::call::{Call, POSTED};
use armento_wire::talk::{Posted, ServedRead};
use std::time::{Duration, Instant};

/// Bytes that are sent as soon as there are so many.
const BATCH: usize = 128 << 10;
/// Bytes on their way that home has not confirmed: beyond, a write is waited for. Of a gigabit line 60 ms.
const WINDOW: u64 = 8 << 20;
/// The longest single write that is posted.
pub const WRITE_MAX: u64 = 1 << 20;
/// Answered reads that are told together.
const READS: usize = 64;
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
    /// Answered reads that home is to be told of; what is posted does not depend on them.
    reads: Vec<ServedRead>,
    /// Posted so far, and what of that home has made.
    posted: Posted,
    made: Posted,
}

struct Batch {
    target: Target,
    bytes: Vec<u8>,
    begun: Instant,
}

impl Posts {
    /// Whether a write of so many bytes may be posted now.
    pub fn takes(&self, len: u64) -> bool {
        len <= WRITE_MAX && self.posted.bytes - self.made.bytes + len <= WINDOW
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
        let added = (b.bytes.len() - len) as u64;
        self.posted.bytes += added;
        self.posted.calls += u64::from(len == 0 && added > 0);
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
        self.batch.is_none() && self.reads.is_empty()
    }

    /// Adds a read. `Some`: so many are told now.
    pub fn add_read(&mut self, read: ServedRead) -> Option<Vec<ServedRead>> {
        self.reads.push(read);
        (self.reads.len() >= READS).then(|| self.take_reads())
    }

    /// The reads that home was not told of.
    pub fn take_reads(&mut self) -> Vec<ServedRead> {
        std::mem::take(&mut self.reads)
    }

    /// Another call is posted.
    pub fn add_call(&mut self) {
        self.posted.calls += 1;
    }

    /// All that was posted so far: a call that is sent now is made behind it.
    pub fn posted(&self) -> Posted {
        self.posted
    }

    pub fn pending(&self) -> bool {
        self.posted.calls > self.made.calls
    }

    /// Home has made so much so far.
    pub fn made(&mut self, made: Posted) {
        let to = |now: u64, made: u64, posted: u64| now.max(made).min(posted);
        self.made = Posted {
            calls: to(self.made.calls, made.calls, self.posted.calls),
            bytes: to(self.made.bytes, made.bytes, self.posted.bytes),
        };
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
        assert!(p.is_empty() && p.posted == Posted::default());
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
        let made = |calls, bytes| Posted { calls, bytes };
        p.made(made(1, WRITE_MAX));
        assert!(p.takes(WRITE_MAX) && !p.takes(WRITE_MAX + 1));
        assert!(p.pending());
        p.made(made(u64::MAX, u64::MAX));
        assert_eq!(p.made, p.posted, "no peer makes room that is not there");
        assert!(!p.pending());
        p.add_call();
        assert!(p.pending(), "a close has no bytes");
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
