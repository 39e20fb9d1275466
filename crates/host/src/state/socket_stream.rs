//! One end of a connection whose bytes go from host to host: what was sent, what came, and what each side knows of it.
//! Pure: no I/O, no clock.
//!
//! ```text
//! out:  0 ───── confirmed ═════ sent          kept here: [confirmed, sent)
//! in:   0 ───── consumed  ═════ received      unread here: [consumed, received)
//! ```
//! Both ends count the bytes of each direction from the switch on. What the other end has not confirmed stays here, so at any moment the two
//! ends together have every byte that no program has read, whatever of it was on its way between them.

use std::collections::VecDeque;

/// An end tells the other what it has when so many bytes came since it was told …
const TELL_RECEIVED: u64 = 128 << 10;
/// … or the program has read so much of a window: a quarter, so that a sender that waits for space gets it in time.
const TELL_CONSUMED_SHARE: u64 = 4;
/// Bytes that are put behind the last ones that wait instead of standing by themselves: many small messages are one piece.
const JOIN: usize = 4 << 10;

/// Bytes in pieces, as they came.
#[derive(Debug, Default)]
struct Pieces {
    all: VecDeque<Vec<u8>>,
    /// So many of the first piece are gone.
    gone: usize,
    len: u64,
}

impl Pieces {
    fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        match self.all.back_mut() {
            Some(last) if last.len() + bytes.len() <= JOIN => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.all.push_back(bytes.to_vec()),
        }
    }

    fn drop_first(&mut self, mut count: u64) {
        self.len -= count;
        while count > 0
            && let Some(first) = self.all.front()
        {
            let has = (first.len() - self.gone) as u64;
            if count < has {
                self.gone += count as usize;
                return;
            }
            count -= has;
            self.gone = 0;
            self.all.pop_front();
        }
    }

    /// The first bytes, at most so many, behind the first `skip`.
    fn copy(&self, skip: u64, most: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(most.min(self.len.saturating_sub(skip)) as usize);
        let (mut skip, mut left) = (skip as usize, most as usize);
        for (n, piece) in self.all.iter().enumerate() {
            let piece = &piece[if n == 0 { self.gone } else { 0 }..];
            let piece = &piece[skip.min(piece.len())..];
            skip = skip.saturating_sub(self.all[n].len() - if n == 0 { self.gone } else { 0 });
            let some = left.min(piece.len());
            out.extend_from_slice(&piece[..some]);
            left -= some;
            if left == 0 {
                break;
            }
        }
        out
    }
}

/// How far an end is in what comes to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub received: u64,
    pub consumed: u64,
}

/// The peer said something that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub struct Impossible;

/// All that an end has when it is given back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remains {
    pub sent: u64,
    /// The last bytes of those, which the other end has not confirmed.
    pub tail: Vec<u8>,
    pub received: u64,
    /// The last bytes of those, which the program has not read.
    pub unread: Vec<u8>,
}

#[derive(Debug)]
pub struct SocketStream {
    /// Bytes that a direction may have that are not read.
    window: u64,
    kept: Pieces,
    sent: u64,
    /// What the other end said last.
    peer: Progress,
    unread: Pieces,
    here: Progress,
    /// What it was told last.
    told: Progress,
}

impl SocketStream {
    /// `first`: bytes that came before the switch and that the program has not read; `theirs`: how many those of the other end are.
    pub fn new(window: u64, first: &[u8], theirs: u64) -> SocketStream {
        let mut s = SocketStream {
            window,
            kept: Pieces::default(),
            sent: theirs,
            peer: Progress {
                received: theirs,
                consumed: 0,
            },
            unread: Pieces::default(),
            here: Progress {
                received: first.len() as u64,
                consumed: 0,
            },
            told: Progress {
                received: first.len() as u64,
                consumed: 0,
            },
        };
        s.unread.push(first);
        s
    }

    /// How many bytes the program may write now.
    pub fn room(&self) -> u64 {
        self.window.saturating_sub(self.sent - self.peer.consumed)
    }

    /// Whether a poll shows that it can be written to. KERNEL: a third of the buffer is free (sk_stream_is_writeable).
    pub fn is_writable(&self) -> bool {
        self.room() * 3 >= self.window
    }

    /// How far the other end is, if the program cannot write now. Two equal ones: nothing was read meanwhile.
    pub fn full_since(&self) -> Option<(u64, u64)> {
        (!self.is_writable()).then_some((self.sent, self.peer.consumed))
    }

    /// Bytes that the program can read.
    pub fn waiting(&self) -> u64 {
        self.unread.len
    }

    /// Bytes that go to the other end; what is sent with them. Before: there is room.
    pub fn send(&mut self, bytes: &[u8]) -> Progress {
        self.kept.push(bytes);
        self.sent += bytes.len() as u64;
        self.told = self.here;
        self.here
    }

    /// The other end says how far it is.
    pub fn heard(&mut self, p: Progress) -> Result<(), Impossible> {
        let fine = p.consumed <= p.received
            && p.received <= self.sent
            && p.received >= self.peer.received
            && p.consumed >= self.peer.consumed;
        if !fine {
            return Err(Impossible);
        }
        self.kept.drop_first(p.received - self.peer.received);
        self.peer = p;
        Ok(())
    }

    /// Bytes came from the other end.
    pub fn came(&mut self, bytes: &[u8]) -> Result<(), Impossible> {
        if self.unread.len + bytes.len() as u64 > self.window {
            return Err(Impossible);
        }
        self.unread.push(bytes);
        self.here.received += bytes.len() as u64;
        Ok(())
    }

    /// The first bytes that wait, which stay.
    pub fn peek(&self, most: u64) -> Vec<u8> {
        self.unread.copy(0, most)
    }

    /// The program has read so many. Before: they are there.
    pub fn read(&mut self, count: u64) {
        self.unread.drop_first(count);
        self.here.consumed += count;
    }

    /// What the other end should be told without waiting for bytes to go there.
    pub fn must_tell(&mut self) -> Option<Progress> {
        let due = self.here.received - self.told.received >= TELL_RECEIVED
            || self.here.consumed - self.told.consumed
                >= (self.window / TELL_CONSUMED_SHARE).max(1);
        due.then(|| {
            self.told = self.here;
            self.here
        })
    }

    pub fn remains(&self) -> Remains {
        Remains {
            sent: self.sent,
            tail: self.kept.copy(0, self.kept.len),
            received: self.here.received,
            unread: self.unread.copy(0, self.unread.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    /// A sequence without repetition below 2^32 bytes.
    fn bytes(from: u64, len: u64) -> Vec<u8> {
        (from..from + len)
            .map(|i| (i * 7 + i / 251) as u8)
            .collect()
    }

    /// Numbers that are the same in each run. PAPER: Marsaglia, Xorshift RNGs, 2003.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    /// Two ends with a line between them; of one direction the frames on their way.
    struct Line {
        ends: [SocketStream; 2],
        under_way: [VecDeque<(Progress, Vec<u8>)>; 2],
        written: [u64; 2],
        read: [u64; 2],
    }

    impl Line {
        fn new(first: [u64; 2]) -> Line {
            let end = |me: usize| SocketStream::new(WINDOW, &bytes(0, first[me]), first[1 - me]);
            Line {
                ends: [end(0), end(1)],
                under_way: Default::default(),
                written: [first[1], first[0]],
                read: [0, 0],
            }
        }

        fn write(&mut self, me: usize, want: u64) {
            let some = want.min(self.ends[me].room());
            let b = bytes(self.written[me], some);
            let told = self.ends[me].send(&b);
            self.under_way[me].push_back((told, b));
            self.written[me] += some;
        }

        fn arrive(&mut self, from: usize) {
            let Some((told, b)) = self.under_way[from].pop_front() else {
                return;
            };
            let to = &mut self.ends[1 - from];
            to.heard(told).expect("it is possible");
            to.came(&b).expect("it fits");
        }

        fn read(&mut self, me: usize, want: u64) {
            let got = self.ends[me].peek(want);
            assert_eq!(got, bytes(self.read[me], got.len() as u64));
            self.ends[me].read(got.len() as u64);
            self.read[me] += got.len() as u64;
            if let Some(told) = self.ends[me].must_tell() {
                self.under_way[me].push_back((told, Vec::new()));
            }
        }
    }

    #[test]
    fn every_byte_is_read_once_or_remains_wherever_the_line_is_cut() {
        for seed in 1..400 {
            let mut n = Numbers(seed);
            let mut line = Line::new([n.below(50), n.below(50)]);
            for _ in 0..n.below(120) {
                let me = n.below(2) as usize;
                match n.below(3) {
                    0 => line.write(me, 1 + n.below(700)),
                    1 => line.arrive(me),
                    _ => line.read(me, 1 + n.below(900)),
                }
            }
            for me in [0, 1] {
                let (mine, theirs) = (line.ends[me].remains(), line.ends[1 - me].remains());
                // What this end has not read, and behind it what the other keeps of what did not come.
                let known = theirs.sent - theirs.tail.len() as u64;
                assert!(known <= mine.received && mine.received <= theirs.sent);
                let mut all = mine.unread.clone();
                all.extend_from_slice(&theirs.tail[(mine.received - known) as usize..]);
                assert!(all.len() as u64 <= WINDOW, "it fits into home's socket");
                assert_eq!(line.read[me] + all.len() as u64, line.written[1 - me]);
                assert_eq!(all, bytes(line.read[me], all.len() as u64), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_writer_gets_space_when_the_reader_has_read() {
        let mut line = Line::new([0, 0]);
        line.write(0, 5000);
        assert_eq!((line.ends[0].room(), line.written[0]), (0, WINDOW));
        line.arrive(0);
        line.read(1, WINDOW / 4);
        line.arrive(1);
        assert_eq!(line.ends[0].room(), WINDOW / 4);
        assert!(line.ends[0].remains().tail.is_empty(), "all was confirmed");
    }

    #[test]
    fn a_peer_cannot_take_back_or_invent() {
        let p = |received, consumed| Progress { received, consumed };
        let mut s = SocketStream::new(WINDOW, b"", 0);
        s.send(&[1; 100]);
        assert_eq!(s.heard(p(50, 20)), Ok(()));
        for bad in [p(101, 0), p(40, 20), p(60, 10), p(60, 61)] {
            assert_eq!(s.heard(bad), Err(Impossible), "{bad:?}");
        }
        assert_eq!(s.came(&[0; WINDOW as usize + 1]), Err(Impossible));
        assert_eq!(s.remains().tail.len(), 50);
    }

    #[test]
    fn pieces_are_copied_from_anywhere() {
        let mut p = Pieces::default();
        let all = bytes(0, 30_000);
        all.chunks(7000).for_each(|c| p.push(c));
        p.drop_first(6500);
        for (skip, most) in [(0, 10), (400, 300), (500, 1), (600, 20_000), (23_499, 9)] {
            let from = 6500 + skip as usize;
            let want = &all[from..(from + most as usize).min(all.len())];
            assert_eq!(p.copy(skip, most), want, "{skip} {most}");
        }
    }

    #[test]
    fn an_end_is_full_until_the_other_has_read_enough() {
        let mut s = SocketStream::new(WINDOW, b"", 0);
        assert_eq!(s.full_since(), None);
        s.send(&vec![1; WINDOW as usize]);
        let full = s.full_since();
        assert_eq!(full, Some((WINDOW, 0)));
        assert_eq!(s.full_since(), full, "nothing was read");
        let read = |received, consumed| Progress { received, consumed };
        assert_eq!(s.heard(read(WINDOW, 1)), Ok(()));
        assert_eq!(s.full_since(), Some((WINDOW, 1)), "a byte was read");
        assert_eq!(s.heard(read(WINDOW, WINDOW)), Ok(()));
        assert_eq!(s.full_since(), None);
    }
}
