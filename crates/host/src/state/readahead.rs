//! What a process reads ahead, descriptor by descriptor. `W` is a read of the guest that waits for its bytes.

use super::listing::Listing;
use std::collections::HashMap;

pub struct ReadAhead<W> {
    pub streams: HashMap<i32, Stream<W>>,
    /// Directories that were just opened.
    pub listings: HashMap<i32, Listing>,
    pub counts: HashMap<i32, ReadCount>,
    /// How often everything was ended: what was asked before that is void.
    pub ended: u64,
}

impl<W> Default for ReadAhead<W> {
    fn default() -> Self {
        ReadAhead {
            streams: HashMap::new(),
            listings: HashMap::new(),
            counts: HashMap::new(),
            ended: 0,
        }
    }
}

/// Reads in order of a descriptor that is not read ahead yet.
pub struct ReadCount {
    pub reads: u32,
    /// So many are needed before home is asked.
    pub needed: u32,
}

/// One descriptor that is read ahead.
pub struct Stream<W> {
    /// Where the program stands in the file.
    pub pos: u64,
    /// The position that home was sent last.
    pub sent_pos: u64,
    /// File offset of the first byte of `bytes`.
    pub start: u64,
    pub bytes: Vec<u8>,
    /// The file ends with them.
    pub end: bool,
    /// How many bytes are asked for next.
    pub piece: u32,
    /// The number of the request that is on its way.
    pub asked: Option<u32>,
    /// Nothing came yet: whether it is permitted is not known.
    pub new: bool,
    /// The read that waits for it.
    pub waiter: Option<W>,
    /// Home records what the program reads: each call that is answered here is told. How many were since the last piece.
    pub told: Option<u32>,
    /// struct stat of the file at its open, and the number of the frame that brought it.
    pub stat: Option<(u64, Vec<u8>)>,
}

impl<W> Stream<W> {
    pub fn begin(piece: u32) -> Stream<W> {
        Stream {
            pos: 0,
            sent_pos: 0,
            start: 0,
            bytes: Vec::new(),
            end: false,
            piece,
            asked: None,
            new: true,
            waiter: None,
            told: None,
            stat: None,
        }
    }

    /// A file that was just opened, with its first bytes.
    pub fn opened(
        piece: u32,
        bytes: Vec<u8>,
        end: bool,
        stat: Option<(u64, Vec<u8>)>,
    ) -> Stream<W> {
        Stream {
            bytes,
            end,
            new: false,
            stat,
            ..Stream::begin(piece)
        }
    }

    /// File offset behind the last byte that came.
    pub fn ahead(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether more is to be asked for: less is left than half of a piece, and than half of what came with the open. Of a
    /// file whose head was enough for its reader no more is read.
    pub fn runs_low(&self) -> bool {
        let left = self.ahead() - self.pos;
        let half = u64::from(self.piece / 2).min(self.bytes.len() as u64 / 2);
        !self.end && self.asked.is_none() && left < half
    }

    /// Where an lseek leads, if that is among the bytes that are here. `None`: home has to be asked.
    pub fn seek(&mut self, offset: i64, whence: i32) -> Option<u64> {
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => self.pos,
            libc::SEEK_END if self.end => self.ahead(),
            _ => return None,
        };
        let to = from.checked_add_signed(offset)?;
        if self.new || to < self.start || to > self.ahead() {
            return None;
        }
        self.pos = to;
        Some(to)
    }

    /// The `want` bytes at an offset, or fewer at the file's end.
    pub fn at(&self, offset: u64, want: u64) -> Option<&[u8]> {
        let from = offset.checked_sub(self.start).filter(|_| !self.new)?;
        let left = (self.bytes.len() as u64).checked_sub(from);
        match left {
            Some(left) if left >= want || self.end => {
                let from = from as usize;
                Some(&self.bytes[from..from + left.min(want) as usize])
            }
            // Behind the end of the file.
            None if self.end => Some(&[]),
            _ => None,
        }
    }

    /// The next `want` bytes, or fewer at the file's end.
    pub fn next(&self, want: u64) -> Option<&[u8]> {
        let at = (self.pos - self.start) as usize;
        let left = self.bytes.len() - at;
        let enough = left as u64 >= want || self.end;
        (!self.new && enough).then(|| &self.bytes[at..at + left.min(want as usize)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(bytes: &[u8], end: bool) -> Stream<()> {
        Stream::opened(100, bytes.to_vec(), end, None)
    }

    #[test]
    fn a_file_that_is_here_whole_can_be_read_anywhere() {
        let mut s = opened(b"abcdef", true);
        assert_eq!(s.next(4), Some(b"abcd".as_slice()));
        assert_eq!(s.seek(-2, libc::SEEK_END), Some(4));
        assert_eq!(s.next(4), Some(b"ef".as_slice()));
        assert_eq!(s.seek(1, libc::SEEK_SET), Some(1));
        assert_eq!(s.seek(2, libc::SEEK_CUR), Some(3));
        assert_eq!(s.at(4, 9), Some(b"ef".as_slice()));
        assert_eq!(s.at(99, 1), Some(b"".as_slice()));
        let invalid = [s.seek(-1, libc::SEEK_SET), s.seek(7, libc::SEEK_SET)];
        assert_eq!(invalid, [None, None], "home has the error, or a hole");
    }

    #[test]
    fn more_is_asked_for_when_half_of_it_was_read() {
        let mut s = opened(b"abcdef", false);
        let low = [2, 3, 4].map(|pos| {
            s.pos = pos;
            s.runs_low()
        });
        assert_eq!(low, [false, false, true]);
        s.end = true;
        assert!(!s.runs_low());
    }

    #[test]
    fn of_a_longer_file_home_knows_more() {
        let mut s = opened(b"abcdef", false);
        assert_eq!(s.at(2, 3), Some(b"cde".as_slice()));
        assert_eq!((s.at(4, 3), s.next(7)), (None, None));
        assert_eq!(s.seek(0, libc::SEEK_END), None);
        assert_eq!(s.seek(6, libc::SEEK_SET), Some(6));
    }
}
