//! Frames of bounded length.

use std::io::{self, Read, Write};

/// Longest frame: a slot's data (8 MiB), an exec's arguments (6 MiB) or a block of pages, and a header.
pub const FRAME_MAX: usize = 9 << 20;

#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("link: {0}")]
    Io(#[from] io::Error),
    #[error("the peer sent a frame of {0} bytes; at most {FRAME_MAX} are allowed")]
    TooLong(usize),
    #[error("the peer sent something that is no {0}")]
    Garbled(&'static str),
    #[error("the peer is dead, or acknowledges nothing that was sent")]
    Over,
    #[error("the peer sent a call that is refused: {0}")]
    Refused(armento_abi::BadCall),
}

/// Reads one frame into `buf` (replaced); returns its kind.
pub fn read_frame(r: &mut impl Read, buf: &mut Vec<u8>) -> Result<u8, WireError> {
    let mut head = [0u8; 5];
    r.read_exact(&mut head)?;
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if len == 0 || len > FRAME_MAX {
        return Err(WireError::TooLong(len));
    }
    fill(r, buf, len - 1)?;
    Ok(head[4])
}

/// A buffer grows with the bytes received, not with the announced length: a peer that announces 9 MiB and sends nothing
/// costs this much.
const STEP: usize = 256 << 10;

pub(crate) fn fill(r: &mut impl Read, buf: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let mut have = 0;
    while have < len {
        let to = len.min(buf.capacity().max(have + STEP));
        if buf.len() < to {
            buf.resize(to, 0);
        }
        r.read_exact(&mut buf[have..to])?;
        have = to;
    }
    buf.truncate(len);
    Ok(())
}

/// Writes one frame and flushes it.
pub fn write_frame(w: &mut impl Write, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
    let body: usize = parts.iter().map(|p| p.len()).sum();
    let len = body + 1;
    if len > FRAME_MAX {
        return Err(WireError::TooLong(len));
    }
    let mut head = Vec::with_capacity(5 + if body <= 64 << 10 { body } else { 0 });
    head.extend_from_slice(&(len as u32).to_le_bytes());
    head.push(kind);
    if body <= 64 << 10 {
        // One write for small frames: one segment, one TLS record.
        parts.iter().for_each(|p| head.extend_from_slice(p));
        w.write_all(&head)?;
    } else {
        w.write_all(&head)?;
        for p in parts {
            w.write_all(p)?;
        }
    }
    w.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_are_bounded() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 7, &[b"ab", b"c"]).expect("into memory");
        let mut buf = Vec::new();
        assert_eq!(read_frame(&mut &bytes[..], &mut buf).expect("own frame"), 7);
        assert_eq!(buf, b"abc");
        let huge = (FRAME_MAX as u32 + 1).to_le_bytes();
        let bad = [&huge[..], &[1u8]].concat();
        assert!(matches!(
            read_frame(&mut &bad[..], &mut buf),
            Err(WireError::TooLong(_))
        ));
        assert!(matches!(
            read_frame(&mut &[0u8, 0, 0, 0, 1][..], &mut buf),
            Err(WireError::TooLong(0))
        ));
        assert!(matches!(
            read_frame(&mut &bytes[..4], &mut buf),
            Err(WireError::Io(_))
        ));
    }

    #[test]
    fn buffer_grows_with_received_bytes() {
        let mut buf = Vec::new();
        let long: Vec<u8> = (0..3 * STEP + 7).map(|i| i as u8).collect();
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 1, &[&long]).expect("into memory");
        for _ in 0..2 {
            read_frame(&mut &bytes[..], &mut buf).expect("own frame");
            assert!(buf == long);
        }
        read_frame(&mut &[1u8, 0, 0, 0, 9][..], &mut buf).expect("an empty frame");
        assert!(buf.is_empty());
        let announced = [&(FRAME_MAX as u32).to_le_bytes()[..], b"\x01few"].concat();
        let mut buf = Vec::new();
        assert!(read_frame(&mut &announced[..], &mut buf).is_err());
        assert!(buf.capacity() <= STEP);
    }
}
