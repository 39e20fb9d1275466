//! The body of a PAGES frame: the content of runs of memory.
//!
//! ```text
//! parts u32 · (at u64, bytes u32, kind u8, more) … · codec u8 · raw u32 · bytes in that codec
//! ```
//! A frame describes each page once. The parts of kind `Bytes` share the bytes after them, in order.

use crate::WireError;
use crate::codec::{self, Codec, Grow};

/// Most memory that one frame describes. Its uncompressed bytes fit into a frame.
pub const SPAN_MAX: usize = 4 << 20;
/// Length of a page that equals another.
pub const PAGE: usize = 4096;

const BYTES: u8 = 0;
const ZEROS: u8 = 1;
const LIKE: u8 = 2;
const HUGE: u8 = 0x80;

/// The content of a run of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Bytes,
    Zeros,
    /// One page, equal to the page at `at` that came before, in this frame or since the last layout and the last end of
    /// a round. `sum` is [`sum`] of its bytes.
    Like {
        at: u64,
        sum: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub at: u64,
    pub len: usize,
    pub holds: Holds,
    /// It is part of a huge page at the source.
    pub huge: bool,
}

/// A hash that pages with the same bytes share.
pub fn digest(page: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(page)
}

/// The part of a [`digest`] that is sent.
pub fn sum(page: &[u8]) -> u64 {
    digest(page) as u64
}

/// Appends the header of a frame to `out`: its bytes follow, `raw` of them after expansion.
pub fn head(parts: &[Part], (codec, raw): (Codec, usize), out: &mut Vec<u8>) {
    out.extend_from_slice(&(parts.len() as u32).to_le_bytes());
    for p in parts {
        out.extend_from_slice(&p.at.to_le_bytes());
        out.extend_from_slice(&(p.len as u32).to_le_bytes());
        let huge = if p.huge { HUGE } else { 0 };
        match p.holds {
            Holds::Bytes => out.push(BYTES | huge),
            Holds::Zeros => out.push(ZEROS | huge),
            Holds::Like { at, sum } => {
                out.push(LIKE | huge);
                out.extend_from_slice(&at.to_le_bytes());
                out.extend_from_slice(&sum.to_le_bytes());
            }
        }
    }
    out.extend_from_slice(&codec::head(codec, raw));
}

/// The header of a frame with uncompressed `runs` (address, bytes).
pub fn plain_head(runs: &[(u64, usize)]) -> Vec<u8> {
    let part = |&(at, len): &(u64, usize)| Part {
        at,
        len,
        holds: Holds::Bytes,
        huge: false,
    };
    let parts: Vec<Part> = runs.iter().map(part).collect();
    let mut out = Vec::new();
    head(
        &parts,
        (Codec::Plain, runs.iter().map(|r| r.1).sum()),
        &mut out,
    );
    out
}

/// The parts of a frame, and the bytes of those that have some.
pub fn decode<'a>(body: &'a [u8], grow: &'a mut Grow) -> Result<(Vec<Part>, &'a [u8]), WireError> {
    const BAD: WireError = WireError::Garbled("block of pages");
    let mut rest = body;
    let n = u32::from_le_bytes(take(&mut rest)?) as usize;
    // Each is 13 bytes at least: a false count takes no memory.
    let mut parts = Vec::with_capacity(n.min(rest.len() / 13));
    let (mut span, mut brings) = (0usize, 0usize);
    for _ in 0..n {
        let p = part(&mut rest)?;
        span += p.len;
        if p.holds == Holds::Bytes {
            brings += p.len;
        }
        if span > SPAN_MAX {
            return Err(BAD);
        }
        parts.push(p);
    }
    let bytes = grow.body(rest, brings)?;
    if bytes.len() != brings {
        return Err(BAD);
    }
    Ok((parts, bytes))
}

fn part(rest: &mut &[u8]) -> Result<Part, WireError> {
    const BAD: WireError = WireError::Garbled("run of pages");
    let at = u64::from_le_bytes(take(rest)?);
    let len = u32::from_le_bytes(take(rest)?) as usize;
    let [kind] = take(rest)?;
    let holds = match kind & !HUGE {
        BYTES => Holds::Bytes,
        ZEROS => Holds::Zeros,
        LIKE => Holds::Like {
            at: u64::from_le_bytes(take(rest)?),
            sum: u64::from_le_bytes(take(rest)?),
        },
        _ => return Err(BAD),
    };
    let sound = len > 0
        && len <= SPAN_MAX
        && at.checked_add(len as u64).is_some()
        && (len == PAGE || !matches!(holds, Holds::Like { .. }));
    let huge = kind & HUGE != 0;
    if !sound {
        return Err(BAD);
    }
    Ok(Part {
        at,
        len,
        holds,
        huge,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], WireError> {
    let (word, others) = rest
        .split_first_chunk::<N>()
        .ok_or(WireError::Garbled("block of pages"))?;
    *rest = others;
    Ok(*word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Shrink;

    fn part(at: u64, len: usize, holds: Holds) -> Part {
        Part {
            at,
            len,
            holds,
            huge: at.is_multiple_of(2 << 20),
        }
    }

    fn parts() -> Vec<Part> {
        let like = Holds::Like { at: 0x1000, sum: 7 };
        vec![
            part(0x1000, PAGE, Holds::Bytes),
            part(0x9000, 3 * PAGE, Holds::Zeros),
            part(0x20_0000, PAGE, Holds::Bytes),
            part(0x40_0000, PAGE, like),
        ]
    }

    #[test]
    fn frames_round_trip_in_every_codec() {
        let raw: Vec<u8> = (0..2 * PAGE).map(|i| (i / 64) as u8).collect();
        let (mut shrink, mut grow) = (Shrink::default(), Grow::default());
        for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd] {
            let mut body = Vec::new();
            head(&parts(), (codec, raw.len()), &mut body);
            body.extend_from_slice(shrink.shrink(codec, &raw).unwrap_or(&raw));
            let (got, bytes) = decode(&body, &mut grow).expect("own frame");
            assert_eq!((got, bytes), (parts(), &raw[..]), "{codec:?}");
        }
        let mut plain = plain_head(&[(0x5000, 2)]);
        plain.extend_from_slice(b"ab");
        let (got, bytes) = decode(&plain, &mut grow).expect("own frame");
        assert_eq!((got[0].at, got[0].len, bytes), (0x5000, 2, &b"ab"[..]));
    }

    #[test]
    fn invalid_frames_are_refused() {
        let mut grow = Grow::default();
        let refused = |parts: &[Part], raw: usize, bytes: usize| {
            let mut body = Vec::new();
            head(parts, (Codec::Plain, raw), &mut body);
            body.resize(body.len() + bytes, 1);
            decode(&body, &mut Grow::default()).is_err()
        };
        let one = |at, len, holds| [part(at, len, holds)];
        assert!(!refused(&one(0x1000, PAGE, Holds::Bytes), PAGE, PAGE));
        assert!(refused(&one(0x1000, PAGE, Holds::Bytes), PAGE, PAGE - 1));
        assert!(refused(&one(0x1000, PAGE, Holds::Bytes), PAGE - 1, PAGE));
        assert!(refused(
            &one(0x1000, PAGE, Holds::Bytes),
            PAGE - 1,
            PAGE - 1
        ));
        assert!(refused(&one(0x1000, 0, Holds::Zeros), 0, 0));
        assert!(refused(&one(u64::MAX, PAGE, Holds::Zeros), 0, 0));
        assert!(refused(&one(0x1000, SPAN_MAX + 1, Holds::Zeros), 0, 0));
        let most = part(0x1000, SPAN_MAX, Holds::Zeros);
        assert!(!refused(&[most], 0, 0) && refused(&[most, most], 0, 0));
        let like = Holds::Like { at: 0, sum: 0 };
        assert!(refused(&one(0x1000, 2 * PAGE, like), 0, 0));
        assert!(decode(&[255; 4], &mut grow).is_err());
        assert!(decode(&[255; 99], &mut grow).is_err());
        let mut body = Vec::new();
        head(&parts(), (Codec::Plain, 2 * PAGE), &mut body);
        body.resize(body.len() + 2 * PAGE, 0);
        for cut in 0..body.len() {
            assert!(decode(&body[..cut], &mut grow).is_err(), "{cut}");
        }
    }

    #[test]
    fn equal_pages_have_equal_digests() {
        let mut page = vec![3u8; PAGE];
        let before = digest(&page);
        assert_eq!(sum(&page), before as u64);
        page[PAGE - 1] ^= 1;
        assert_ne!(digest(&page), before);
    }
}
