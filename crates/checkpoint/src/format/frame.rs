//! Frames: everything behind the header.

use super::header::invalid;
use std::io;

/// Raw bytes of a frame: 64 pages. Large enough for zstd to find what repeats, small enough to be read for one page.
pub const CHUNK: usize = 256 * 1024;
/// Of one file: contents of 1 TiB.
pub const FRAMES_MAX: usize = 1 << 22;
/// Bytes before the payload.
pub const HEAD: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// [`crate::home::Home`], in pieces.
    Home = 1,
    /// The image of a process (id), in pieces.
    Image = 2,
    /// Distinct pages.
    Block = 3,
    /// Where the pages of a process (id) are.
    Runs = 4,
    /// The content of a file (id), in pieces.
    File = 5,
    /// Totals: the last frame.
    End = 9,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        let all = [
            Kind::Home,
            Kind::Image,
            Kind::Block,
            Kind::Runs,
            Kind::File,
            Kind::End,
        ];
        all.into_iter().find(|k| *k as u8 == byte)
    }
}

/// The name of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    pub id: u32,
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub key: Key,
    pub packed: bool,
    pub stored: u32,
    pub raw: u32,
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = self.key.kind as u8;
        bytes[1] = self.packed.into();
        bytes[4..8].copy_from_slice(&self.key.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.raw.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEAD]) -> Option<Head> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let head = Head {
            key: Key {
                kind: Kind::of(bytes[0])?,
                id: word(4),
                number: u64::from(word(8)) | u64::from(word(12)) << 32,
            },
            packed: bytes[1] == 1,
            stored: word(16),
            raw: word(20),
        };
        let sizes = match head.packed {
            true => head.stored < head.raw && head.stored > 0,
            false => head.stored == head.raw,
        };
        let fine = bytes[1] <= 1 && bytes[2..4] == [0, 0] && head.raw as usize <= CHUNK && sizes;
        fine.then_some(head)
    }
}

/// Raw bytes from what is stored. After: exactly `head.raw` of them.
pub fn unpack(head: &Head, stored: Vec<u8>) -> io::Result<Vec<u8>> {
    if !head.packed {
        return Ok(stored);
    }
    let mut raw = vec![0; head.raw as usize];
    let n = zstd::bulk::decompress_to_buffer(&stored, &mut raw)?;
    match n == raw.len() {
        true => Ok(raw),
        false => Err(invalid("length of a frame")),
    }
}
