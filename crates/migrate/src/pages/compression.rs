//! Decides whether compression makes a move shorter, from measurements of the link and of a sample.
//!
//! From: `dedup.rs`.

use armento_wire::codec::{Codec, Shrink};
use std::time::{Duration, Instant};

/// Nanoseconds.
type Ns = f64;

/// Frames smaller than this many bytes say little about the link: their time is that of the system call.
const FRAME_MIN: usize = 64 << 10;
/// Weight of the newest frame in the average.
const NEWEST: f64 = 0.2;
/// A link that takes bytes faster than this, nanoseconds each (250 MB/s), gets no compression: lz4 alone takes about 1
/// ns, and the delay may as well be due to the target, busy with writing pages.
const FAST: Ns = 4.0;
/// The first sample is taken after this many frames on a slow link (100 Mbit/s), else after the first megabyte: a
/// sample takes a millisecond of a slow processor, as much as there is to save for a small process …
const FIRST: u32 = 2;
const CRAWLS: Ns = 80.0;
const FIRST_ELSE: u32 = 8;
/// … each later one after twice as many, up to this: 8 MiB that may be of another kind.
const SELDOM: u32 = 64;
/// Bytes compressed for a sample.
const SAMPLE: usize = 64 << 10;
/// Cost of a byte in the local kernel, beside its time on the link.
const SEND: Ns = 0.5;
/// Another codec must be better by this factor to be chosen.
const BETTER: f64 = 0.9;

pub struct Pace {
    /// Time of a byte on the link. `None`: not measured yet.
    link: Option<Ns>,
    codec: Codec,
    /// Frames until the next sample, and from that to the one after it.
    left: u32,
    stride: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            link: None,
            codec: Codec::Plain,
            left: FIRST,
            stride: FIRST,
        }
    }
}

impl Pace {
    /// The codec for the next frame, which contains `raw`.
    pub fn choose(&mut self, raw: &[u8], shrink: &mut Shrink) -> Codec {
        if self.left > 0 || raw.len() < SAMPLE {
            self.left = self.left.saturating_sub(1);
            return self.codec;
        }
        if self.stride == FIRST && self.link.is_none_or(|link| link < CRAWLS) {
            (self.left, self.stride) = (FIRST_ELSE - FIRST, FIRST_ELSE);
            return self.codec;
        }
        self.stride = (self.stride * 2).min(SELDOM);
        self.left = self.stride;
        let Some(link) = self.link else {
            return self.codec;
        };
        if !self.is_slow() {
            self.codec = Codec::Plain;
            return self.codec;
        }
        let from = (raw.len() - SAMPLE) / 2;
        let sample = &raw[from..from + SAMPLE];
        let try_one = |codec: Codec| {
            let begun = Instant::now();
            let len = shrink.shrink(codec, sample).map_or(SAMPLE, <[u8]>::len);
            Tried {
                codec,
                cost: begun.elapsed().as_nanos() as Ns / SAMPLE as f64,
                ratio: len as f64 / SAMPLE as f64,
            }
        };
        let tried = [Codec::Lz4, Codec::Zstd].map(try_one);
        self.codec = best(self.codec, link, &tried);
        self.codec
    }

    /// Whether the link limits the transfer.
    pub fn is_slow(&self) -> bool {
        self.link.is_some_and(|l| l >= FAST)
    }

    /// Records that a frame of `bytes` took `all` from the first read of its pages, and of that `write` until the
    /// kernel had it.
    pub fn wrote(&mut self, bytes: usize, all: Duration, write: Duration) {
        if bytes < FRAME_MIN {
            return;
        }
        // During compression the link may wait for us: then the time says nothing about the link.
        let waited = write * 4 >= all;
        if self.codec != Codec::Plain && !waited {
            return;
        }
        let took = if write * 2 >= all { all } else { write };
        let now = took.as_nanos() as Ns / bytes as f64;
        self.link = Some(match self.link {
            Some(before) => before + (now - before) * NEWEST,
            None => now,
        });
    }
}

/// Result of a sample: nanoseconds for each uncompressed byte, and the compressed share.
#[derive(Clone, Copy, Debug)]
struct Tried {
    codec: Codec,
    cost: Ns,
    ratio: f64,
}

/// While the link carries one frame the next is prepared: the slower of both determines the time.
fn best(now: Codec, link: Ns, tried: &[Tried]) -> Codec {
    let plain = Tried {
        codec: Codec::Plain,
        cost: 0.0,
        ratio: 1.0,
    };
    let time = |t: &Tried| {
        let takes = (t.cost + t.ratio * SEND).max(t.ratio * link);
        if t.codec == now {
            takes * BETTER
        } else {
            takes
        }
    };
    let all = tried.iter().chain([&plain]);
    all.min_by(|a, b| time(a).total_cmp(&time(b)))
        .map_or(Codec::Plain, |t| t.codec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LZ4: Tried = Tried {
        codec: Codec::Lz4,
        cost: 1.2,
        ratio: 0.5,
    };
    const ZSTD: Tried = Tried {
        codec: Codec::Zstd,
        cost: 3.0,
        ratio: 0.35,
    };

    #[test]
    fn slower_of_link_and_codec_determines_the_choice() {
        let check = |link: Ns, tried: &[Tried], want: Codec| {
            assert_eq!(best(Codec::Plain, link, tried), want, "{link} {tried:?}");
        };
        check(0.8, &[LZ4, ZSTD], Codec::Plain);
        // 1 Gbit: 8.5 ns; lz4 4.3, zstd 3.2.
        check(8.5, &[LZ4, ZSTD], Codec::Zstd);
        check(5.0, &[LZ4, ZSTD], Codec::Lz4);
        check(85.0, &[LZ4, ZSTD], Codec::Zstd);
        // Incompressible data is sent uncompressed.
        let noise = |t: Tried| Tried { ratio: 1.0, ..t };
        check(85.0, &[noise(LZ4), noise(ZSTD)], Codec::Plain);
        // A slow processor.
        let slow = |t: Tried| Tried {
            cost: t.cost * 20.0,
            ..t
        };
        check(8.5, &[slow(LZ4), slow(ZSTD)], Codec::Plain);
        // The current codec stays while another is hardly better.
        assert_eq!(best(Codec::Lz4, 6.3, &[LZ4, ZSTD]), Codec::Lz4);
    }

    fn block(text: bool) -> Vec<u8> {
        let mut x = 88172645463325252u64;
        let mut word = |i: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if text { i / 9 } else { x }
        };
        (0..64 << 10).flat_map(|i| word(i).to_le_bytes()).collect()
    }

    /// The choice after so many frames of `raw` that took `ns` a byte.
    fn after(frames: u32, raw: &[u8], ns: f64) -> Codec {
        let (mut pace, mut shrink) = (Pace::default(), Shrink::default());
        for _ in 0..frames {
            pace.choose(raw, &mut shrink);
            let took = Duration::from_nanos((raw.len() as f64 * ns) as u64);
            pace.wrote(raw.len(), took, took);
        }
        pace.choose(raw, &mut shrink)
    }

    #[test]
    fn samples_are_taken_only_on_a_slow_link() {
        let (text, noise) = (block(true), block(false));
        assert_eq!(after(FIRST - 1, &text, 1e6), Codec::Plain);
        // A link so slow that no processor is slower.
        assert_ne!(after(FIRST, &text, 1e6), Codec::Plain);
        // … and one on which a small process would have arrived before the sample was done.
        assert_eq!(after(FIRST_ELSE - 1, &text, CRAWLS / 2.0), Codec::Plain);
        assert_eq!(after(9, &text, FAST / 2.0), Codec::Plain);
        assert_eq!(after(9, &noise, 1e6), Codec::Plain);
        assert_eq!(after(9, &text[..FRAME_MIN / 2], 1e6), Codec::Plain);
    }

    #[test]
    fn waiting_link_is_not_measured() {
        let us = Duration::from_micros;
        let mut pace = Pace {
            codec: Codec::Zstd,
            ..Pace::default()
        };
        pace.wrote(FRAME_MIN, us(1000), us(10));
        assert_eq!(pace.link, None);
        pace.wrote(FRAME_MIN, us(1000), us(900));
        assert!(pace.link.is_some_and(|l| l > 15.0));
        pace.codec = Codec::Plain;
        pace.wrote(FRAME_MIN, us(1000), us(10));
        assert!(pace.link.is_some_and(|l| l < 15.0));
    }
}
