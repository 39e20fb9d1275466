//! Pages that come after the flip (post-copy): the books of the target and of the source.
//!
//! From: `migrate/src/postcopy/fetch.rs`, `migrate/src/postcopy/push.rs`. Pure.

use armento_tracee::pages::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Pages that a target still waits for, by their current address. A program may move its memory meanwhile (mremap): the
/// source identifies every page by its address at the flip.
#[derive(Default)]
pub struct Later {
    /// Start here: end here, and the offset to add to an address at the source.
    awaited: BTreeMap<u64, (u64, i64)>,
    /// All offsets that ever occurred.
    shifts: BTreeSet<i64>,
}

/// A received part, and its current address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub source: u64,
    pub here: u64,
    pub len: u64,
}

impl Later {
    /// `runs`: disjoint.
    pub fn new(runs: &[Run]) -> Later {
        Later {
            awaited: runs.iter().map(|&(s, e)| (s, (e, 0))).collect(),
            shifts: [0].into(),
        }
    }

    /// The address at the source of the page at `at`, if it has not come.
    pub fn source_of(&self, at: u64) -> Option<u64> {
        let (_, &(end, shift)) = self.awaited.range(..=at).next_back()?;
        (at < end).then(|| at.wrapping_add_signed(-shift))
    }

    /// The parts of the source's `run` that are still awaited, and their current addresses.
    pub fn pieces(&self, (start, end): Run) -> Vec<Piece> {
        let mut all = Vec::new();
        for &shift in &self.shifts {
            let (from, to) = (
                start.wrapping_add_signed(shift),
                end.wrapping_add_signed(shift),
            );
            for (s, (e, own)) in self.touching((from, to)) {
                if own == shift {
                    let (s, e) = (s.max(from), e.min(to));
                    all.push(Piece {
                        source: s.wrapping_add_signed(-shift),
                        here: s,
                        len: e - s,
                    });
                }
            }
        }
        all
    }

    /// Marks `run` as received or given up.
    pub fn settle(&mut self, run: Run) {
        for (s, (e, shift)) in self.touching(run) {
            self.awaited.remove(&s);
            if s < run.0 {
                self.awaited.insert(s, (run.0, shift));
            }
            if e > run.1 {
                self.awaited.insert(run.1, (e, shift));
            }
        }
    }

    /// The program moved its memory.
    pub fn moved(&mut self, from: u64, to: u64, len: u64) {
        let by = to.wrapping_sub(from) as i64;
        let gone = (from, from.saturating_add(len));
        let moving: Vec<_> = self
            .touching(gone)
            .into_iter()
            .map(|(s, (e, shift))| (s.max(gone.0), e.min(gone.1), shift))
            .collect();
        self.settle(gone);
        // The destination of the move is unmapped by it.
        self.settle((to, to.saturating_add(len)));
        for (s, e, shift) in moving {
            let shift = shift.wrapping_add(by);
            self.shifts.insert(shift);
            let (s, e) = (s.wrapping_add_signed(by), e.wrapping_add_signed(by));
            self.awaited.insert(s, (e, shift));
        }
    }

    pub fn left(&self) -> u64 {
        self.awaited.iter().map(|(s, (e, _))| e - s).sum()
    }

    fn touching(&self, (start, end): Run) -> Vec<(u64, (u64, i64))> {
        let before = self.awaited.range(..start).next_back();
        let first = before.filter(|(_, (e, _))| *e > start).map(|(s, _)| *s);
        let from = first.unwrap_or(start);
        let all = self.awaited.range(from..end.max(from));
        all.map(|(s, v)| (*s, *v)).collect()
    }
}

/// Pages that a source has not sent yet, and the order of the background sweep.
#[derive(Default)]
pub struct Unsent {
    left: Later,
    order: Vec<Run>,
    /// Position of the sweep in `order`: the run, and the address in it.
    at: (usize, u64),
}

impl Unsent {
    /// `order` comes first in the sweep, and may contain pages outside `runs`; the pages of `runs` outside it come
    /// last.
    pub fn new(runs: &[Run], mut order: Vec<Run>) -> Unsent {
        order.extend(runs);
        Unsent {
            left: Later::new(runs),
            order,
            at: (0, 0),
        }
    }

    pub fn left(&self) -> u64 {
        self.left.left()
    }

    /// The parts of `run` that were not sent; they count as sent from now on.
    pub fn take(&mut self, run: Run) -> Vec<Run> {
        let parts = self.left.pieces(run);
        self.left.settle(run);
        parts.iter().map(|p| (p.here, p.here + p.len)).collect()
    }

    /// The next `most` bytes of the sweep, or fewer; empty at its end.
    pub fn next(&mut self, most: u64) -> Vec<Run> {
        let (mut runs, mut room) = (Vec::new(), most);
        while let Some(&(start, end)) = self.order.get(self.at.0).filter(|_| room > 0) {
            let at = self.at.1.max(start);
            if at >= end {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            let part = (at, end.min(at + room));
            let got = self.take(part);
            room -= got.iter().map(|r| r.1 - r.0).sum::<u64>();
            runs.extend(got);
            self.at.1 = part.1;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = 4096;

    #[test]
    fn received_pages_are_not_awaited() {
        let mut l = Later::new(&[(10 * P, 20 * P), (30 * P, 31 * P)]);
        assert_eq!(l.left(), 11 * P);
        assert_eq!(l.source_of(9 * P), None);
        assert_eq!(l.source_of(10 * P), Some(10 * P));
        l.settle((12 * P, 14 * P));
        assert_eq!(
            (l.source_of(12 * P), l.source_of(14 * P)),
            (None, Some(14 * P))
        );
        let whole = |source, len| Piece {
            source,
            here: source,
            len,
        };
        let got = l.pieces((11 * P, 15 * P));
        assert_eq!(got, [whole(11 * P, P), whole(14 * P, P)]);
        l.settle((0, 100 * P));
        assert_eq!((l.left(), l.pieces((0, 100 * P)).len()), (0, 0));
    }

    #[test]
    fn moved_memory_is_found_by_its_old_address() {
        let mut l = Later::new(&[(10 * P, 20 * P)]);
        l.moved(12 * P, 112 * P, 4 * P);
        assert_eq!(l.source_of(12 * P), None);
        assert_eq!(l.source_of(113 * P), Some(13 * P));
        assert_eq!(l.source_of(11 * P), Some(11 * P));
        // Again, a part of it, over a range that is awaited elsewhere.
        l.moved(113 * P, 18 * P, P);
        assert_eq!(l.source_of(18 * P), Some(13 * P));
        assert_eq!(l.pieces((18 * P, 19 * P)), []);
        let moved = Piece {
            source: 13 * P,
            here: 18 * P,
            len: P,
        };
        assert_eq!(l.pieces((13 * P, 14 * P)), [moved]);
        assert_eq!(l.left(), 9 * P);
    }

    #[test]
    fn a_sweep_sends_every_page_once() {
        let runs = [(0, 4 * P), (8 * P, 10 * P)];
        let order = vec![(8 * P, 9 * P), (0, 4 * P), (8 * P, 10 * P)];
        let mut u = Unsent::new(&runs, order);
        assert_eq!(u.next(P), [(8 * P, 9 * P)]);
        assert_eq!(u.take((P, 3 * P)), [(P, 3 * P)]);
        assert_eq!(u.take((P, 3 * P)), []);
        let rest: u64 = std::iter::from_fn(|| Some(u.next(P)).filter(|r| !r.is_empty()))
            .flatten()
            .map(|r| r.1 - r.0)
            .sum();
        assert_eq!((rest, u.left()), (3 * P, 0));
    }
}
