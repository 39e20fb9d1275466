//! Compression of bytes: lz4, zstd, or none.
//!
//! The sender chooses the codec; a receiver accepts each of them, and never expands more than the stated length.

use crate::WireError;
use zstd::zstd_safe::CompressionLevel;

/// zstd level: higher ones take twice the time and more for a few per cent.
const LEVEL: CompressionLevel = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    #[default]
    Plain,
    Lz4,
    Zstd,
}

impl Codec {
    pub const fn byte(self) -> u8 {
        match self {
            Codec::Plain => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    pub fn of(byte: u8) -> Option<Codec> {
        let all = [Codec::Plain, Codec::Lz4, Codec::Zstd];
        all.into_iter().find(|c| c.byte() == byte)
    }
}

/// The header of bytes in `codec` that expand to `raw`.
pub fn head(codec: Codec, raw: usize) -> [u8; HEAD] {
    let [a, b, c, d] = (raw as u32).to_le_bytes();
    [codec.byte(), a, b, c, d]
}

/// Length of that header.
pub const HEAD: usize = 5;

/// Compressor, with its reusable buffers.
#[derive(Default)]
pub struct Shrink {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl Shrink {
    /// `raw` in `codec`; `None` if it would not be smaller.
    pub fn shrink(&mut self, codec: Codec, raw: &[u8]) -> Option<&[u8]> {
        let room = match codec {
            Codec::Plain => return None,
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            Codec::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let n = match codec {
            Codec::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(z) => z,
                    None => self.zstd.insert(zstd::bulk::Compressor::new(LEVEL).ok()?),
                };
                zstd.compress_to_buffer(raw, &mut self.out[..room]).ok()?
            }
            _ => lz4_flex::block::compress_into(raw, &mut self.out).ok()?,
        };
        (n < raw.len()).then(|| &self.out[..n])
    }
}

/// Decompressor, with its reusable buffers.
#[derive(Default)]
pub struct Grow {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    out: Vec<u8>,
}

impl Grow {
    /// The expansion of `body`, a [`head`] and bytes: `most` bytes at most.
    pub fn body<'a>(&'a mut self, body: &'a [u8], most: usize) -> Result<&'a [u8], WireError> {
        const BAD: WireError = WireError::Garbled("block of bytes");
        let (head, bytes) = body.split_first_chunk::<HEAD>().ok_or(BAD)?;
        let [codec, raw @ ..] = *head;
        let raw = u32::from_le_bytes(raw) as usize;
        let codec = Codec::of(codec).filter(|_| raw <= most).ok_or(BAD)?;
        self.grow(codec, bytes, raw)
    }

    /// The `len` bytes to which `bytes` expand. Before: the caller limits `len`.
    pub fn grow<'a>(
        &'a mut self,
        codec: Codec,
        bytes: &'a [u8],
        len: usize,
    ) -> Result<&'a [u8], WireError> {
        const BAD: WireError = WireError::Garbled("compressed block");
        if codec == Codec::Plain {
            return if bytes.len() == len {
                Ok(bytes)
            } else {
                Err(BAD)
            };
        }
        if self.out.len() < len {
            self.out.resize(len, 0);
        }
        let room = &mut self.out[..len];
        let n = match codec {
            Codec::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(z) => z,
                    None => self.zstd.insert(zstd::bulk::Decompressor::new()?),
                };
                zstd.decompress_to_buffer(bytes, room).map_err(|_| BAD)?
            }
            _ => lz4_flex::block::decompress_into(bytes, room).map_err(|_| BAD)?,
        };
        if n == len {
            Ok(&self.out[..len])
        } else {
            Err(BAD)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLER: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

    fn text() -> Vec<u8> {
        (0..20_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect()
    }

    #[test]
    fn compressed_bytes_round_trip() {
        let (mut shrink, mut grow) = (Shrink::default(), Grow::default());
        for codec in SMALLER {
            // Twice: reused buffers do no harm.
            for raw in [text(), text()[..5000].to_vec()] {
                let small = shrink.shrink(codec, &raw).expect("text").to_vec();
                assert!(small.len() < raw.len() / 2, "{codec:?}");
                assert_eq!(grow.grow(codec, &small, raw.len()).expect("own"), raw);
            }
            assert_eq!(Codec::of(codec.byte()), Some(codec));
        }
        assert_eq!(shrink.shrink(Codec::Plain, &text()), None);
        assert_eq!(grow.grow(Codec::Plain, b"ab", 2).expect("plain"), b"ab");
        assert!(grow.grow(Codec::Plain, b"ab", 3).is_err());
        assert_eq!(Codec::of(3), None);
        let small = shrink.shrink(Codec::Lz4, &text()).expect("text");
        let body = [&head(Codec::Lz4, text().len()), small].concat();
        assert_eq!(grow.body(&body, text().len()).expect("own"), text());
        assert!(grow.body(&body, text().len() - 1).is_err());
        assert!(grow.body(&body[..HEAD - 1], text().len()).is_err());
    }

    #[test]
    fn incompressible_bytes_are_not_compressed() {
        let mut x = 88172645463325252u64;
        let mut dice = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let noise: Vec<u8> = (0..4096).flat_map(|_| dice().to_le_bytes()).collect();
        let mut shrink = Shrink::default();
        for codec in SMALLER {
            assert_eq!(shrink.shrink(codec, &noise), None, "{codec:?}");
        }
    }

    #[test]
    fn invalid_blocks_are_refused() {
        let (mut shrink, mut grow) = (Shrink::default(), Grow::default());
        let raw = text();
        for codec in SMALLER {
            let small = shrink.shrink(codec, &raw).expect("text").to_vec();
            for len in [0, 1, raw.len() - 1, raw.len() + 1, raw.len() * 2] {
                assert!(grow.grow(codec, &small, len).is_err(), "{codec:?} {len}");
            }
            for cut in [0, 1, 4, small.len() / 2, small.len() - 1] {
                assert!(grow.grow(codec, &small[..cut], raw.len()).is_err());
            }
            // With any byte changed it is refused, or has the stated length: never more, and never a panic.
            for at in (0..small.len()).step_by(97) {
                let mut other = small.clone();
                other[at] ^= 0x55;
                if let Ok(got) = grow.grow(codec, &other, raw.len()) {
                    assert_eq!(got.len(), raw.len());
                }
            }
        }
    }
}
