//! Selects the pages of a block that must travel: not zero pages, not copies of a page sent before.
//!
//! From: `migrate/src/source/mod.rs`. Next: `writer.rs`, through the frames of `wire/src/pages.rs`.

use super::compression::Pace;
use crate::Result;
use armento_tracee::pages::Run;
use armento_wire::codec::{self, Codec, Shrink};
use armento_wire::pages::{self, Holds, PAGE, Part, digest};
use armento_wire::{bulk, write_frame};
use std::io::Write;
use std::time::Instant;

const ZEROS: [u8; PAGE] = [0; PAGE];

/// Makes frames from blocks of pages.
#[derive(Default)]
pub struct Pack {
    parts: Vec<Part>,
    head: Vec<u8>,
    seen: Seen,
    /// Sorted: blocks that are one huge page each. Those before the last page sent are not used any more.
    huge: Vec<Run>,
    pace: Pace,
    shrink: Shrink,
}

impl Pack {
    /// Begins a new round: the target may change its pages of the last one. Pages of `plain`, sorted, are private to
    /// the process and remain unchanged at the target until the next round.
    pub fn begin(&mut self, plain: Vec<Run>) {
        self.seen.begin(plain);
        self.huge.clear();
    }

    /// Notes that `run`, after all that were named before in this round, lies in huge pages.
    pub fn is_huge(&mut self, run: Run) {
        self.huge.push(run);
    }

    /// Writes a frame that describes `runs`, whose bytes are consecutive in `bytes`; `begun` is when reading them
    /// began. Returns its bytes.
    pub fn send(
        &mut self,
        w: &mut impl Write,
        runs: &[(u64, usize)],
        bytes: &mut [u8],
        begun: Instant,
    ) -> Result<u64> {
        self.seen.thorough = self.pace.is_slow();
        let kept = self.sort(runs, bytes);
        let raw = &bytes[..kept];
        let (codec, body) = squeeze(&mut self.pace, &mut self.shrink, raw);
        self.head.clear();
        pages::head(&self.parts, (codec, kept), &mut self.head);
        let len = self.head.len() + body.len();
        let writing = Instant::now();
        write_frame(w, bulk::PAGES, &[&self.head, body])?;
        self.pace.wrote(len, begun.elapsed(), writing.elapsed());
        Ok(len as u64)
    }

    /// As [`Pack::send`], for a piece of a file.
    pub fn send_bytes(&mut self, w: &mut impl Write, raw: &[u8], begun: Instant) -> Result<u64> {
        let (codec, body) = squeeze(&mut self.pace, &mut self.shrink, raw);
        let head = codec::head(codec, raw.len());
        let len = head.len() + body.len();
        let writing = Instant::now();
        write_frame(w, bulk::BYTES, &[&head, body])?;
        self.pace.wrote(len, begun.elapsed(), writing.elapsed());
        Ok(len as u64)
    }

    /// Classifies `runs`, and moves the bytes that must travel to the front of `bytes`; returns their number.
    fn sort(&mut self, runs: &[(u64, usize)], bytes: &mut [u8]) -> usize {
        self.parts.clear();
        let (mut from, mut kept) = (0, 0);
        for &(at, n) in runs {
            let mut done = 0;
            while done < n {
                let len = (n - done).min(PAGE);
                let holds = self.look(at + done as u64, &bytes[from..from + len]);
                if holds == Holds::Bytes {
                    if kept < from {
                        bytes.copy_within(from..from + len, kept);
                    }
                    kept += len;
                }
                self.add(at + done as u64, len, holds);
                done += len;
                from += len;
            }
        }
        kept
    }

    fn look(&mut self, at: u64, page: &[u8]) -> Holds {
        if page.len() < PAGE {
            Holds::Bytes
        } else if page[0] == 0 && page == ZEROS {
            Holds::Zeros
        } else {
            self.seen.look(at, page).unwrap_or(Holds::Bytes)
        }
    }

    fn add(&mut self, at: u64, len: usize, holds: Holds) {
        let next = self.huge.partition_point(|run| run.1 <= at);
        let huge = self.huge.get(next).is_some_and(|run| run.0 <= at);
        match self.parts.last_mut() {
            Some(p)
                if p.holds == holds
                    && p.huge == huge
                    && p.at + p.len as u64 == at
                    && !is_like(holds) =>
            {
                p.len += len;
            }
            _ => self.parts.push(Part {
                at,
                len,
                holds,
                huge,
            }),
        }
    }
}

/// `raw` in the encoding in which it travels.
fn squeeze<'a>(pace: &mut Pace, shrink: &'a mut Shrink, raw: &'a [u8]) -> (Codec, &'a [u8]) {
    let codec = pace.choose(raw, shrink);
    match shrink.shrink(codec, raw) {
        Some(small) => (codec, small),
        None => (Codec::Plain, raw),
    }
}

fn is_like(holds: Holds) -> bool {
    matches!(holds, Holds::Like { .. })
}

/// Pages that are remembered, 32 bytes each, and hints of 4: a newer one replaces an older one. Two megabytes, whose
/// first touch takes a millisecond …
const SEEN_MAX: usize = 1 << 16;
/// … so that a small process has fewer, but at least these.
const SEEN_MIN: usize = 1 << 8;

/// Pages that the target holds unchanged as they were sent.
struct Seen {
    /// A hash of a few words of each page seen, in 32 bits. Empty until the first page.
    hints: Vec<u32>,
    /// Addresses of pages, by content.
    table: Vec<(u128, u64)>,
    plain: Vec<Run>,
    /// Entries of `hints` and `table`: a power of two.
    places: usize,
    /// Every page is hashed as a whole: 0.3 us. Otherwise only those whose hint was seen before, which finds content
    /// that occurs three times.
    thorough: bool,
    /// The end of the last page examined: within a round no page comes twice.
    behind: u64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            hints: Vec::new(),
            table: Vec::new(),
            plain: Vec::new(),
            places: SEEN_MAX,
            thorough: false,
            behind: 0,
        }
    }
}

impl Seen {
    /// For a process with these private pages.
    fn begin(&mut self, plain: Vec<Run>) {
        let pages: u64 = plain.iter().map(|run| (run.1 - run.0) / PAGE as u64).sum();
        let places = (pages.min(SEEN_MAX as u64) as usize).next_power_of_two();
        let places = places.clamp(SEEN_MIN, SEEN_MAX);
        if places != self.places {
            (self.places, self.hints) = (places, Vec::new());
        }
        self.plain = plain;
        self.forget();
    }

    fn forget(&mut self) {
        self.table.clear();
        self.behind = 0;
    }

    fn look(&mut self, at: u64, page: &[u8]) -> Option<Holds> {
        if at < self.behind {
            self.forget();
        }
        self.behind = at + PAGE as u64;
        if !self.hinted(page) && !self.thorough {
            return None;
        }
        let whole = digest(page);
        let slot = whole as usize % self.places;
        if self.table.is_empty() {
            self.table.resize(self.places, (0, 0));
        }
        let (known, from) = self.table[slot];
        if known == whole && from != 0 {
            let sum = whole as u64;
            return Some(Holds::Like { at: from, sum });
        }
        let next = self.plain.partition_point(|run| run.1 <= at);
        if self.plain.get(next).is_some_and(|run| run.0 <= at) {
            self.table[slot] = (whole, at);
        }
        None
    }

    /// Whether a page was seen that may be equal to this one.
    fn hinted(&mut self, page: &[u8]) -> bool {
        if self.hints.is_empty() {
            self.hints.resize(self.places, 0);
        }
        let hint = hint(page);
        // The bits that are not its index.
        let slot = &mut self.hints[hint as usize % self.places];
        let known = *slot == (hint >> 32) as u32;
        *slot = (hint >> 32) as u32;
        known
    }
}

/// Hash of eight words of a page, spread over the page.
fn hint(page: &[u8]) -> u64 {
    // Knuth's multiplier of 64 bits; the words lie at odd distances, where tables of structures do not repeat.
    const ODD: u64 = 6_364_136_223_846_793_005;
    let words = page.chunks_exact(8).skip(13).step_by(67);
    words.fold(0, |h, w| {
        let word = u64::from_le_bytes(w.try_into().unwrap_or_default());
        let mixed = (h ^ word).wrapping_mul(ODD);
        mixed ^ mixed >> 29
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_wire::codec::Grow;
    use armento_wire::read_frame;

    const AT: u64 = 0x10_0000;
    const STEP: u64 = PAGE as u64;

    /// On a link so slow that every page is hashed.
    fn slow() -> Pack {
        let second = std::time::Duration::from_secs(1);
        let mut pack = Pack::default();
        pack.pace.wrote(1 << 20, second, second);
        pack
    }

    /// What travels of a block of pages, each filled with its number: its parts and the first byte of each page.
    fn packed(pack: &mut Pack, at: u64, fill: &[u8]) -> (Vec<Part>, Vec<u8>) {
        let mut bytes: Vec<u8> = fill.iter().flat_map(|b| [*b; PAGE]).collect();
        let (mut out, mut body) = (Vec::new(), Vec::new());
        let runs = [(at, bytes.len())];
        let len = pack.send(&mut out, &runs, &mut bytes, Instant::now());
        let kind = read_frame(&mut &out[..], &mut body).expect("own frame");
        assert_eq!((kind, len.expect("sent")), (bulk::PAGES, body.len() as u64));
        let mut grow = Grow::default();
        let (parts, bytes) = pages::decode(&body, &mut grow).expect("own frame");
        (parts, bytes.chunks(PAGE).map(|p| p[0]).collect())
    }

    fn told(parts: &[Part]) -> Vec<(u64, usize, u64)> {
        let kind = |p: &Part| match p.holds {
            Holds::Bytes => 1,
            Holds::Zeros => 0,
            Holds::Like { at, .. } => at,
        };
        parts
            .iter()
            .map(|p| (p.at, p.len / PAGE, kind(p)))
            .collect()
    }

    #[test]
    fn zero_pages_and_duplicates_are_not_sent() {
        let mut pack = slow();
        pack.begin(vec![(AT, AT + 64 * STEP)]);
        let (parts, came) = packed(&mut pack, AT, &[1, 0, 0, 2, 1, 3]);
        let want = [
            (AT, 1, 1),
            (AT + STEP, 2, 0),
            (AT + 3 * STEP, 1, 1),
            (AT + 4 * STEP, 1, AT),
            (AT + 5 * STEP, 1, 1),
        ];
        assert_eq!(told(&parts), want);
        assert_eq!(came, [1, 2, 3]);
        // Also in later frames, but not in a later round.
        let (parts, came) = packed(&mut pack, AT + 9 * STEP, &[2]);
        assert_eq!(told(&parts), [(AT + 9 * STEP, 1, AT + 3 * STEP)]);
        assert!(came.is_empty());
        pack.begin(vec![(AT, AT + 64 * STEP)]);
        assert_eq!(packed(&mut pack, AT + 9 * STEP, &[2]).1, [2]);
    }

    #[test]
    fn huge_pages_are_announced() {
        let mut pack = Pack::default();
        pack.begin(Vec::new());
        pack.is_huge((AT + STEP, AT + 3 * STEP));
        let (parts, _) = packed(&mut pack, AT, &[1, 2, 0, 3]);
        let huge: Vec<bool> = parts.iter().map(|p| p.huge).collect();
        assert_eq!(told(&parts).len(), 4);
        assert_eq!(huge, [false, true, true, false]);
    }

    #[test]
    fn only_unchanging_pages_are_referenced() {
        let mut pack = slow();
        // The first page is shared with other processes.
        pack.begin(vec![(AT + STEP, AT + 64 * STEP)]);
        assert_eq!(packed(&mut pack, AT, &[1, 1, 1]).1, [1, 1]);
        // The sweep went back: pages sent before may have been changed.
        assert_eq!(packed(&mut pack, AT, &[2, 1]).1, [2, 1]);
    }

    #[test]
    fn fast_link_deduplicates_from_the_third_copy() {
        let mut pack = Pack::default();
        pack.begin(vec![(AT, AT + 64 * STEP)]);
        assert_eq!(packed(&mut pack, AT, &[1, 1, 2, 1]).1, [1, 1, 2]);
        // Pages that differ where the hint does not read.
        let mut bytes = vec![5u8; 3 * PAGE];
        bytes[PAGE] = 6;
        assert_eq!(hint(&bytes[..PAGE]), hint(&bytes[PAGE..2 * PAGE]));
        let at = AT + 9 * STEP;
        assert_eq!(pack.sort(&[(at, 3 * PAGE)], &mut bytes), 3 * PAGE);
        assert_ne!(hint(&[1; PAGE]), hint(&[2; PAGE]));
    }
}
