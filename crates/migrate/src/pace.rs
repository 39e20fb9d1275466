//! Whether making bytes smaller makes a move shorter: decided by what the link and a sample showed.
//!
//! From: `pack.rs`.

use armento_wire::codec::{Codec, Shrink};
use std::time::{Duration, Instant};

/// Nanoseconds.
type Ns = f64;

/// Frames below this many bytes tell little of the link: their time is that of a call.
const FRAME_MIN: usize = 64 << 10;
/// What the next frame says counts so much against those before.
const NEWEST: f64 = 0.2;
/// A link that takes bytes faster than this, each (250 MB/s), is left alone: lz4 alone takes about 1 ns, and what holds
/// us up may as well be the target, busy with putting pages where they belong.
const FAST: Ns = 4.0;
/// The first look comes behind so many frames where the link crawls (100 Mbit/s), else behind the first megabyte: looking
/// takes a millisecond of a slow processor, as much as what there is to save of a small process …
const FIRST: u32 = 2;
const CRAWLS: Ns = 80.0;
const FIRST_ELSE: u32 = 8;
/// … each later one behind twice as many …
/// … up to this: 8 MiB that may be of another kind.
const SELDOM: u32 = 64;
/// What is compressed for a look.
const SAMPLE: usize = 64 << 10;
/// What a byte takes on its way through the kernel here, beside its time on the link.
const SEND: Ns = 0.5;
/// Another codec must be better by this to be taken.
const BETTER: f64 = 0.9;

pub struct Pace {
    /// A byte takes so long. `None`: not seen yet.
    link: Option<Ns>,
    codec: Codec,
    /// Frames until the next look, and between that and the next.
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
    /// What the next frame, which brings `raw`, is to be sent in.
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

    /// Does everybody wait for the link?
    pub fn is_slow(&self) -> bool {
        self.link.is_some_and(|l| l >= FAST)
    }

    /// A frame of `bytes` took `all` from the first look at its pages, and of that `write` until the kernel had it.
    pub fn wrote(&mut self, bytes: usize, all: Duration, write: Duration) {
        if bytes < FRAME_MIN {
            return;
        }
        // While bytes are made smaller the link may wait for us: then it says nothing of itself.
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

/// How a sample did: nanoseconds a byte of what it was, and what was left of it.
#[derive(Clone, Copy, Debug)]
struct Tried {
    codec: Codec,
    cost: Ns,
    ratio: f64,
}

/// While the link carries one frame the next is made ready: the slower of both decides.
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
    fn the_slower_of_link_and_codec_decides() {
        let check = |link: Ns, tried: &[Tried], want: Codec| {
            assert_eq!(best(Codec::Plain, link, tried), want, "{link} {tried:?}");
        };
        check(0.8, &[LZ4, ZSTD], Codec::Plain);
        // 1 Gbit: 8.5 ns; lz4 4.3, zstd 3.2.
        check(8.5, &[LZ4, ZSTD], Codec::Zstd);
        check(5.0, &[LZ4, ZSTD], Codec::Lz4);
        check(85.0, &[LZ4, ZSTD], Codec::Zstd);
        // What does not get smaller goes as it is.
        let noise = |t: Tried| Tried { ratio: 1.0, ..t };
        check(85.0, &[noise(LZ4), noise(ZSTD)], Codec::Plain);
        // A slow processor.
        let slow = |t: Tried| Tried {
            cost: t.cost * 20.0,
            ..t
        };
        check(8.5, &[slow(LZ4), slow(ZSTD)], Codec::Plain);
        // What is in use stays while another is hardly better.
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

    /// What is chosen after so many frames of `raw` that took `ns` a byte.
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
    fn only_a_slow_link_is_worth_a_look() {
        let (text, noise) = (block(true), block(false));
        assert_eq!(after(FIRST - 1, &text, 1e6), Codec::Plain);
        // A link so slow that no processor is slower.
        assert_ne!(after(FIRST, &text, 1e6), Codec::Plain);
        // … and one on which a small process would have come before the look was over.
        assert_eq!(after(FIRST_ELSE - 1, &text, CRAWLS / 2.0), Codec::Plain);
        assert_eq!(after(9, &text, FAST / 2.0), Codec::Plain);
        assert_eq!(after(9, &noise, 1e6), Codec::Plain);
        assert_eq!(after(9, &text[..FRAME_MIN / 2], 1e6), Codec::Plain);
    }

    #[test]
    fn a_link_that_waits_for_us_says_nothing() {
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
