//! The image of one process on its own connection. Source writes, target answers at two points.
//!
//! ```text
//! source                               target
//! HELLO(Purpose)
//! OFFER(head) ────────────────────────► checks, builds an empty body
//!            ◄──────────────────────── ACCEPT(files it lacks) | DECLINE(stay)
//! FILE(key) · BYTES … ────────────────►
//! PAGES … SYNC (a round) ─────────────►
//!            ◄──────────────────────── SYNCED, when they are where they belong
//! STATE(layout, dropped, rest) ───────►
//! PAGES … END ────────────────────────► builds
//!            ◄──────────────────────── READY | FAILED
//! ```

use crate::WireError;

pub const HELLO: u8 = 16;
pub const OFFER: u8 = 17;
pub const ACCEPT: u8 = 18;
pub const DECLINE: u8 = 19;
pub const FILE: u8 = 20;
pub const BYTES: u8 = 21;
pub const PAGES: u8 = 22;
pub const LAYOUT: u8 = 23;
pub const STATE: u8 = 24;
pub const END: u8 = 25;
pub const READY: u8 = 26;
pub const FAILED: u8 = 27;
pub const SYNC: u8 = 28;
pub const SYNCED: u8 = 29;

/// Header of a PAGES frame: how many runs, then (address u64, bytes u32) each, then the bytes.
pub fn pages_head(runs: &[(u64, usize)]) -> Vec<u8> {
    let mut b = Vec::with_capacity(4 + runs.len() * 12);
    b.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    for &(a, n) in runs {
        b.extend_from_slice(&a.to_le_bytes());
        b.extend_from_slice(&(n as u32).to_le_bytes());
    }
    b
}

/// Runs of memory: address and bytes of each.
pub type Runs = Vec<(u64, usize)>;

/// The runs of a PAGES frame and its bytes.
pub fn decode_pages(body: &[u8]) -> Result<(Runs, &[u8]), WireError> {
    const BAD: WireError = WireError::Garbled("block of pages");
    let (n, rest) = body.split_first_chunk::<4>().ok_or(BAD)?;
    let n = u32::from_le_bytes(*n) as usize;
    let (heads, bytes) = rest
        .split_at_checked(n.checked_mul(12).ok_or(BAD)?)
        .ok_or(BAD)?;
    let word = |h: &[u8]| {
        (
            u64::from_le_bytes(h[..8].try_into().unwrap_or_default()),
            u32::from_le_bytes(h[8..].try_into().unwrap_or_default()) as usize,
        )
    };
    let runs: Runs = heads.chunks_exact(12).map(word).collect();
    let sound = runs.iter().map(|r| r.1).sum::<usize>() == bytes.len();
    if sound { Ok((runs, bytes)) } else { Err(BAD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_round_trip_and_reject_lies() {
        let runs = [(0x1000, 4), (0x9000, 2)];
        let mut b = pages_head(&runs);
        b.extend_from_slice(b"abcdef");
        let (got, bytes) = decode_pages(&b).expect("own frame");
        assert_eq!((got.as_slice(), bytes), (&runs[..], &b"abcdef"[..]));
        assert!(decode_pages(&b[..b.len() - 1]).is_err());
        assert!(decode_pages(&[255, 255, 255, 255]).is_err());
    }
}
