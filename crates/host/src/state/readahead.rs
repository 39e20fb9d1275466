//! What a process reads ahead, descriptor by descriptor. `W` is a read of the guest that waits for its bytes.

use std::collections::HashMap;

pub struct ReadAhead<W> {
    pub streams: HashMap<i32, Stream<W>>,
    pub counts: HashMap<i32, ReadCount>,
}

impl<W> Default for ReadAhead<W> {
    fn default() -> Self {
        ReadAhead {
            streams: HashMap::new(),
            counts: HashMap::new(),
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
    /// The number of the request that is on its way.
    pub asked: Option<u32>,
    /// Nothing came yet: whether it is permitted is not known.
    pub new: bool,
    /// The read that waits for it.
    pub waiter: Option<W>,
}

impl<W> Stream<W> {
    pub fn begin() -> Stream<W> {
        Stream {
            pos: 0,
            sent_pos: 0,
            start: 0,
            bytes: Vec::new(),
            end: false,
            asked: None,
            new: true,
            waiter: None,
        }
    }

    /// File offset behind the last byte that came.
    pub fn ahead(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The next `want` bytes, or fewer at the file's end.
    pub fn next(&self, want: u64) -> Option<&[u8]> {
        let at = (self.pos - self.start) as usize;
        let left = self.bytes.len() - at;
        let enough = left as u64 >= want || self.end;
        (!self.new && enough).then(|| &self.bytes[at..at + left.min(want as usize)])
    }
}
