//! Frames from when they are sent until the peer has acknowledged them.

use std::collections::VecDeque;

/// Length, kind, number, heard.
pub(super) const HEAD: usize = 21;
/// Kind of a frame that is only an acknowledgement.
pub(super) const ACK: u8 = 0;
/// Limits of kept frames, beyond which senders wait: half a second of a gigabit line, and as many small frames as are
/// sent in that time. One frame is always accepted.
const BYTES_MAX: usize = 32 << 20;
const FRAMES_MAX: usize = 32 << 10;

#[derive(Default)]
pub(super) struct Kept {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of the first frame of `frames`; the first ever is 1.
    first: u64,
    /// How many of them are written to the connection in use.
    written: usize,
}

/// A frame's header and body in one buffer: one write, one segment, one TLS record if it is short.
pub(super) fn frame(kind: u8, number: u64, heard: u64, parts: &[&[u8]]) -> Vec<u8> {
    let body: usize = parts.iter().map(|p| p.len()).sum();
    let mut b = Vec::with_capacity(HEAD + body);
    b.extend_from_slice(&((HEAD - 4 + body) as u32).to_le_bytes());
    b.push(kind);
    b.extend_from_slice(&number.to_le_bytes());
    b.extend_from_slice(&heard.to_le_bytes());
    parts.iter().for_each(|p| b.extend_from_slice(p));
    b
}

/// A frame that is only an acknowledgement.
pub(super) fn ack(heard: u64) -> Vec<u8> {
    frame(ACK, 0, heard, &[])
}

impl Kept {
    pub fn new() -> Kept {
        Kept {
            first: 1,
            ..Kept::default()
        }
    }

    /// Whether there is space for a frame of this size within `times` the usual limit.
    pub fn takes(&self, body: usize, times: usize) -> bool {
        let room = self.bytes + HEAD + body <= BYTES_MAX * times;
        self.frames.is_empty() || room && self.frames.len() < FRAMES_MAX * times
    }

    /// The number of the last frame; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.first + self.frames.len() as u64 - 1
    }

    pub fn push(&mut self, kind: u8, heard: u64, parts: &[&[u8]]) -> u64 {
        let number = self.last() + 1;
        let f = frame(kind, number, heard, parts);
        self.bytes += f.len();
        self.frames.push_back(f);
        number
    }

    /// The peer has acknowledged everything up to `number`.
    pub fn forget(&mut self, number: u64) {
        while self.first <= number
            && let Some(f) = self.frames.pop_front()
        {
            self.first += 1;
            self.bytes -= f.len();
            self.written = self.written.saturating_sub(1);
        }
    }

    /// A new connection: no kept frame was written to it yet.
    pub fn rewind(&mut self) {
        self.written = 0;
    }

    pub fn unwritten(&self) -> bool {
        self.written < self.frames.len()
    }

    /// The next frame to write, which counts as written from now on.
    pub fn next(&mut self) -> Option<&[u8]> {
        let f = self.frames.get(self.written)?;
        self.written += 1;
        Some(f)
    }

    /// The link is dead: nothing will be received.
    pub fn clear(&mut self) {
        self.first = self.last() + 1;
        (self.frames, self.bytes, self.written) = (VecDeque::new(), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_continue_and_space_is_freed() {
        let mut k = Kept::new();
        assert_eq!((k.last(), k.unwritten()), (0, false));
        assert_eq!(k.push(1, 0, &[b"ab"]), 1);
        assert_eq!(k.push(1, 0, &[b"c"]), 2);
        assert_eq!(k.next().map(<[u8]>::len), Some(HEAD + 2));
        k.forget(1);
        assert_eq!(k.next().map(<[u8]>::len), Some(HEAD + 1));
        assert!(!k.unwritten());
        k.rewind();
        assert!(k.unwritten());
        k.forget(9);
        assert_eq!((k.last(), k.unwritten(), k.bytes), (2, false, 0));
        assert_eq!(k.push(1, 0, &[]), 3);
        k.clear();
        assert_eq!(k.push(1, 0, &[]), 4);
    }

    #[test]
    fn kept_frames_are_bounded() {
        let mut k = Kept::new();
        assert!(k.takes(BYTES_MAX * 2, 1), "one is always taken");
        let big = vec![0; 8 << 20];
        while k.takes(big.len(), 1) {
            k.push(1, 0, &[&big]);
        }
        assert_eq!(k.frames.len(), 3);
        assert!(k.takes(big.len(), 2));
        k.forget(1);
        assert!(k.takes(big.len(), 1));
        let mut k = Kept::new();
        while k.takes(0, 1) {
            k.push(1, 0, &[]);
        }
        assert_eq!(k.frames.len(), FRAMES_MAX);
    }
}
