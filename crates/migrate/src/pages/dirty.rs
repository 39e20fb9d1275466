//! Which pages to send, and when again: the source's records of one process's memory.
//!
//! From: `migrate/src/source/mod.rs`. Writes are tracked by userfaultfd (see `tracee/src/pages.rs`). Only memory that holds pages is
//! tracked: a heap reserved and never touched costs neither marks in the page tables nor bytes on the link.

use crate::image::areas::{self, Survey};
use crate::image::{Area, Kind};
use crate::{Local, Result};
use armento_tracee::pages::{self, Backing, Pagemap, Run};
use armento_tracee::uffd::Uffd;
use std::io;
use std::sync::RwLock;

/// Bytes of address space write-protected or scanned at a time: some hundred microseconds.
const PIECE: u64 = 32 << 20;
/// Tracked ranges are rounded to a huge page, so that none is split and neighbours merge.
const BLOCK: u64 = 2 << 20;
/// Runs closer than this are scanned together. A scan takes 1 to 2 us, and 5 ns a page (Linux 6.18).
const NEAR: u64 = 1 << 20;
/// Limit of tracked runs: each costs a call in every round.
const WATCHED_MAX: usize = 8192;

/// Ranges with writes tracked since their pages were sent. What lies outside counts as never sent.
#[derive(Default)]
pub struct Watch {
    watched: Vec<(Run, Backing)>,
    /// Userfaultfd markers where no page was: to the kernel's scan they look swapped out.
    bare: Vec<Run>,
}

/// What remains to be sent when the process is frozen.
#[derive(Default)]
pub struct Rest {
    pub todo: Vec<Run>,
    /// The process has no page of its own there any more.
    pub empty: Vec<Run>,
    /// Guard regions.
    pub guards: Vec<Run>,
}

impl Watch {
    /// Begins to track `mappings`, which are adjacent, and passes what they hold to `send`. `writes`: see
    /// `source/precopy.rs`.
    pub fn begin(
        &mut self,
        kernel: (&Pagemap, &Uffd, &RwLock<()>),
        mappings: &[Run],
        backing: Backing,
        send: &mut dyn FnMut(&[Run]) -> Result<()>,
    ) -> Result<()> {
        let from = mappings.first().map_or(0, |r| r.0);
        self.begin_at(kernel, (mappings, from), backing, send)
    }

    /// The same, from `at` on.
    fn begin_at(
        &mut self,
        kernel: (&Pagemap, &Uffd, &RwLock<()>),
        (mappings, mut at): (&[Run], u64),
        backing: Backing,
        send: &mut dyn FnMut(&[Run]) -> Result<()>,
    ) -> Result<()> {
        let (map, uffd, writes) = kernel;
        let (Some(first), Some(last)) = (mappings.first(), mappings.last()) else {
            return Ok(());
        };
        let whole = (first.0, last.1);
        let mut registered = false;
        // Skips from one piece that holds pages to the next: sanitizers reserve 16 TB and touch little of it.
        while let Some(first) = map.first((at, whole.1)).unwrap_or_default() {
            let piece = piece(first, (at, whole.1));
            at = piece.1;
            let before = self.held(map, (piece, backing), &mut Vec::new());
            let before = before.unwrap_or_default();
            for run in blocks(&before, piece) {
                let armed = self.watched.len() < WATCHED_MAX && {
                    let _quiet = writes.write().unwrap_or_else(|e| e.into_inner());
                    registered = registered || uffd.watch(whole).is_ok();
                    registered && uffd.arm(run).is_ok()
                };
                if !armed {
                    // Markers set before the failure are not pages either.
                    self.marked(map, (run, backing), &before);
                }
                if !armed && mappings.len() > 1 {
                    // One of them cannot be tracked: try each alone, for the others can.
                    let mut rest = mappings.iter().filter(|r| r.1 > run.0);
                    return rest.try_for_each(|r| {
                        self.begin_at(kernel, (&[*r], r.0.max(run.0)), backing, send)
                    });
                }
                // A mapping that vanished or cannot be tracked counts as never sent: it is sent in the freeze.
                if !armed {
                    continue;
                }
                self.watched.push((run, backing));
                let held = self.marked(map, (run, backing), &before);
                send(&held)?;
            }
        }
        Ok(())
    }

    /// What is tracked.
    pub fn watched(&self) -> Vec<Run> {
        pages::union(self.watched.iter().map(|(run, _)| *run).collect(), &[])
    }

    /// Whether it can go on for another checkpoint: each adds ranges.
    pub fn has_room(&self) -> bool {
        self.watched.len() < WATCHED_MAX / 2
    }

    /// Everything counts as never sent from now on. The markers stay, and are not pages.
    pub fn forget(&mut self) {
        self.watched.clear();
    }

    /// Records markers where no page was `before`; returns the pages. A page that was created and swapped out between
    /// two scans, microseconds apart, is not recognised.
    fn marked(
        &mut self,
        map: &Pagemap,
        (run, backing): (Run, Backing),
        before: &[Run],
    ) -> Vec<Run> {
        let held = map.held(run, backing).unwrap_or_default();
        let swapped = pages::both(&held.swapped, before);
        let bare = pages::minus(&held.swapped, &swapped);
        self.bare = pages::union(std::mem::take(&mut self.bare), &bare);
        pages::union(held.present, &swapped)
    }

    /// Pages of `range` that hold the process's own data; a marker of ours is not a page until it is written. Guard
    /// regions in it are added to `guards`.
    fn held(
        &self,
        map: &Pagemap,
        (range, backing): (Run, Backing),
        guards: &mut Vec<Run>,
    ) -> io::Result<Vec<Run>> {
        let mut held = map.held(range, backing)?;
        guards.append(&mut held.guards);
        let marks = pages::both(&held.swapped, &self.bare);
        if marks.is_empty() {
            return Ok(held.all());
        }
        let marks = pages::minus(&marks, &map.written(range, backing)?);
        Ok(pages::minus(&held.all(), &marks))
    }

    /// One round: passes what was written since the last to `send`.
    pub fn round(
        &self,
        map: &Pagemap,
        writes: &RwLock<()>,
        send: &mut dyn FnMut(Backing, &[Run]) -> Result<()>,
    ) -> Result<()> {
        for &(run, backing) in &self.watched {
            let runs = {
                let _quiet = writes.write().unwrap_or_else(|e| e.into_inner());
                map.take_written(run, backing).unwrap_or_default()
            };
            send(backing, &runs)?;
        }
        Ok(())
    }

    /// Before: frozen. `offered` is what the target mapped, `sent` what was sent so far, `lost` what of that the target
    /// lost.
    pub fn rest(
        &self,
        map: &Pagemap,
        (offered, survey): (&[Area], &Survey),
        (sent, lost): (&[Run], &[Run]),
    ) -> Result<Rest> {
        // A mapping replaced since the offer is replaced at the target, too: its pages sent before are lost, even if it
        // was tracked.
        let stays: Vec<Run> = areas::in_both(offered, &survey.areas)
            .iter()
            .map(Area::run)
            .collect();
        let watched: Vec<Run> = self.watched.iter().map(|(run, _)| *run).collect();
        let known = pages::both(&pages::union(watched, &[]), &pages::union(stays, &[]));
        let known = pages::minus(&known, lost);
        let mut rest = Rest::default();
        let shared = |a: &Area| matches!(a.kind, Kind::Shared { .. });
        let of = |wanted: &dyn Fn(&Area) -> bool| -> Vec<Run> {
            let all = survey.areas.iter().filter(|a| wanted(a));
            // Adjacent mappings are merged: thousands of small ones take one scan.
            pages::union(all.map(Area::run).collect(), &[])
        };
        rest.todo.extend(pages::both(&survey.objects, &of(&shared)));
        for backing in [Backing::Memory, Backing::File] {
            let own = of(&|a| !shared(a) && a.backing() == backing);
            for part in pages::minus(&own, &known) {
                let have = self
                    .held(map, (part, backing), &mut rest.guards)
                    .of_process("read its page map")?;
                rest.empty.extend(pages::minus(&[part], &have));
                rest.todo.extend(have);
            }
            for part in pages::both(&own, &known) {
                match backing {
                    Backing::Memory => self.memory(map, part, &mut rest)?,
                    Backing::File => file(map, part, sent, &mut rest)?,
                }
            }
        }
        rest.todo = pages::union(rest.todo, &[]);
        rest.empty = pages::union(rest.empty, &[]);
        rest.guards = pages::union(rest.guards, &[]);
        Ok(rest)
    }

    fn memory(&self, map: &Pagemap, part: Run, rest: &mut Rest) -> Result<()> {
        let changed = map.changed(part).of_process("read its page map")?;
        rest.todo.extend(changed.written);
        rest.empty.extend(changed.empty);
        rest.guards.extend(changed.guards);
        // Missing in the first scan, write-protected later: it was created in between.
        let bare = pages::both(&self.bare, &[part]);
        for span in spans(&bare) {
            let there = map
                .held(span, Backing::Memory)
                .of_process("read its page map")?
                .present;
            rest.todo.extend(pages::both(&there, &bare));
        }
        Ok(())
    }
}

/// Ranges that hold all of `runs`, which are in order: scanning a page costs a hundredth of a call.
fn spans(runs: &[Run]) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for run in runs {
        match all.last_mut() {
            Some(span) if run.0 - span.1 <= NEAR => span.1 = run.1,
            _ => all.push(*run),
        }
    }
    all
}

/// Giving up a private page of a file mapping leaves its marker, and a scan then shows the file's page: the kernel's
/// report on markers is not enough here, and such mappings are small.
fn file(map: &Pagemap, part: Run, sent: &[Run], rest: &mut Rest) -> Result<()> {
    let mut held = map
        .held(part, Backing::File)
        .of_process("read its page map")?;
    rest.guards.append(&mut held.guards);
    rest.todo.extend(
        map.written(part, Backing::File)
            .of_process("read its page map")?,
    );
    rest.todo.extend(pages::both(&held.swapped, sent));
    rest.empty.extend(pages::minus(&[part], &held.all()));
    Ok(())
}

/// The piece that begins with the block of `at`, short enough that write-protecting or scanning it does not delay
/// writes for long. `start` and `end` are its area's.
fn piece(at: u64, (start, end): Run) -> Run {
    let from = (at / BLOCK * BLOCK).max(start);
    (from, (from / PIECE * PIECE + PIECE).min(end))
}

/// The blocks of `piece` that contain any of `runs`.
fn blocks(runs: &[Run], piece: Run) -> Vec<Run> {
    let round = |r: &Run| {
        let from = (r.0 / BLOCK * BLOCK).max(piece.0);
        (from, (r.1.div_ceil(BLOCK) * BLOCK).min(piece.1))
    };
    pages::union(runs.iter().map(round).collect(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_runs_are_scanned_together() {
        let runs = [(0, 4096), (8192, 12288), (NEAR + 12288, NEAR + 16384)];
        let far = 3 * NEAR;
        let all = [&runs[..], &[(far, far + 4096)]].concat();
        assert_eq!(spans(&all), [(0, NEAR + 16384), (far, far + 4096)]);
        assert_eq!(spans(&[]), []);
    }

    #[test]
    fn pieces_and_blocks_cover_their_ranges() {
        let run = (PIECE - 4096, 2 * PIECE + 4096);
        assert_eq!(piece(run.0, run), (run.0, PIECE));
        assert_eq!(piece(PIECE + 4096, run), (PIECE, 2 * PIECE));
        assert_eq!(piece(2 * PIECE, run), (2 * PIECE, run.1));
        assert_eq!(piece(5 * BLOCK + 4096, (0, PIECE)), (5 * BLOCK, PIECE));

        let held = [
            (BLOCK + 4096, BLOCK + 8192),
            (2 * BLOCK, 2 * BLOCK + 4096),
            (9 * BLOCK, 9 * BLOCK + 4096),
        ];
        let piece = (BLOCK + 4096, 9 * BLOCK + 8192);
        let want = [(piece.0, 3 * BLOCK), (9 * BLOCK, piece.1)];
        assert_eq!(blocks(&held, piece), want);
        assert_eq!(blocks(&[], piece), []);
    }
}
