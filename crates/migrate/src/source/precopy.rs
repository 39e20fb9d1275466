//! Pre-copy: memory is sent in rounds while the process runs.
//!
//! From: `offer.rs`. Next: the owner's freeze, then `dirty.rs`.

use super::job::Job;
use super::send_pages::{LATE_MIN, can_wait, plain};
use crate::failpoint::point;
use crate::image::areas::{self, Survey};
use crate::image::{Area, Kind};
use crate::pages::Watch;
use crate::phase::Failpoint;
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::pages::{self, Backing, Pagemap, Run};
use armento_tracee::sched_slice::Patient;
use armento_tracee::uffd::Uffd;
use armento_wire::{bulk, talk, write_frame};
use std::io::{Read, Write};
use std::sync::{OnceLock, RwLock};
use std::time::{Duration, Instant};

/// Pre-copy ends with a round whose sending, until the target had written its pages, took no longer than this: what was
/// written meanwhile takes as long again, in the pause (goal: 10 ms).
const ENOUGH: Duration = Duration::from_millis(3);
/// … or no longer than this, if it sent little: next to a program that computes, the answer alone takes until the
/// kernel's next tick (10 ms with HZ=100).
const TICK: Duration = Duration::from_millis(10);
/// A process that writes so little that rounds take no longer than this (because reading gigabytes takes time) is not
/// throttled: throttling would be more noticeable than a pause as long.
const BEARABLE: Duration = Duration::from_millis(5);
/// Pre-copy also ends after so many rounds, or when a round is no shorter than this share of the one before: a program
/// that writes faster than the link carries never converges.
const ROUNDS_MAX: u32 = 12;
const SHRINKS: f64 = 0.9;
/// What the process writes during a round that gives pages up at the target is given up in the next. Giving up is some
/// 20 times as fast as sending (Linux 6.18: 40 ms a GiB), so that a few rounds end below …
const DROPS_MAX: usize = 8;
/// … this much, which is given up in the pause.
const DROP_ENOUGH: u64 = 4 << 20;
/// If a program writes less than this during a round, all of it is sent in the pause, however long a round takes, as on
/// a full machine: two milliseconds of a gigabit link. Pages that come after the flip are lost if their connection is
/// lost, and the program with them.
const OWED_MIN: u64 = 256 << 10;
/// Runs in one message.
const DROP_RUNS: usize = 8192;

/// A round that was not shorter than the one before.
#[derive(Clone, Copy, Default)]
struct Stuck {
    /// Time of the sending.
    sending: Duration,
    /// Bytes sent.
    bytes: u64,
}

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Sends pages in rounds while the process runs, until little is left to send. Only what the target has mapped
    /// since the offer: the process may have mapped more in the meantime. `writes`: read-locked by code that writes
    /// into the process from outside. `ARMENTO_STOPCOPY` leaves everything to the pause.
    pub fn precopy(&mut self, uffd: &Uffd, now: &Survey, writes: &RwLock<()>) -> Result<()> {
        point(Failpoint::SourceCopying);
        if std::env::var_os("ARMENTO_STOPCOPY").is_some() {
            return Err(MigrateError::Stays(Stay::Busy, "a bench's wish".into()));
        }
        self.patient = Some(Patient::begin());
        let mut watch = std::mem::take(&mut self.watch);
        let r = self.rounds(&mut watch, uffd, now, writes);
        // Kept even after a failed attempt: its marks exist.
        self.watch = watch;
        self.patient = None;
        r
    }

    fn rounds(
        &mut self,
        watch: &mut Watch,
        uffd: &Uffd,
        now: &Survey,
        writes: &RwLock<()>,
    ) -> Result<()> {
        let map = Pagemap::open(self.pid).of_process("open its page map")?;
        let both = areas::in_both(&self.offered, &now.areas);
        // A target that is still creating its process would look like a slow link.
        self.sync()?;
        self.pack.begin(plain(&both));
        // Writes of other processes into shared memory are not tracked: it is sent at the end.
        let own = both
            .iter()
            .filter(|a| !matches!(a.kind, Kind::Shared { .. }));
        let before = watch.watched();
        for (runs, backing) in neighbours(own) {
            let kernel = (&map, uffd, writes);
            let known = pages::both(&pages::union(runs.clone(), &[]), &before);
            if known.is_empty() {
                watch.begin(kernel, &runs, backing, &mut |runs| self.runs(runs))?;
                continue;
            }
            // Tracked since an earlier checkpoint: the rounds find what was written since.
            for run in pages::minus(&pages::union(runs, &[]), &known) {
                watch.begin(kernel, &[run], backing, &mut |runs| self.runs(runs))?;
            }
        }
        self.sync()?;
        let mut stuck = self.converge(&both, watch, &map, writes)?;
        if !self.postcopy
            && stuck.is_some_and(|s| s.sending > BEARABLE)
            && let Some(throttle) = self.throttle.take()
        {
            let slow = throttle();
            loop {
                stuck = self.converge(&both, watch, &map, writes)?;
                if stuck.is_none_or(|s| s.sending <= BEARABLE) || !slow.harder() {
                    break;
                }
            }
            self.slowed = Some(slow);
        }
        if self.postcopy && forced() {
            self.give_up_all()?;
        }
        if self.postcopy && stuck.is_some_and(|s| s.bytes >= OWED_MIN) {
            self.give_up(watch, &map, writes)?;
        }
        Ok(())
    }

    /// Rounds, until one is short, or they do not get shorter: then returns the last one.
    fn converge(
        &mut self,
        both: &[Area],
        watch: &Watch,
        map: &Pagemap,
        writes: &RwLock<()>,
    ) -> Result<Option<Stuck>> {
        let mut last = f64::INFINITY;
        let mut stuck = Stuck::default();
        for _ in 1..ROUNDS_MAX {
            let (begun, before) = (Instant::now(), self.read);
            self.pack.begin(plain(both));
            // The time of scanning does not shrink with the amount written, and the last scan, of a frozen process,
            // does not write-protect anything.
            let mut sending = Duration::ZERO;
            watch.round(map, writes, &mut |_, runs| {
                let begun = Instant::now();
                let sent = if runs.is_empty() {
                    Ok(())
                } else {
                    self.runs(runs)
                };
                sending += begun.elapsed();
                self.breathe();
                sent
            })?;
            let begun_sync = Instant::now();
            self.sync()?;
            sending += begun_sync.elapsed();
            point(Failpoint::SourceRound);
            let took = begun.elapsed();
            let bytes = self.read - before;
            let little = sending <= TICK && bytes < LATE_MIN;
            if sending <= ENOUGH || little {
                return Ok(None);
            }
            stuck = Stuck { sending, bytes };
            if took.as_secs_f64() > last * SHRINKS {
                break;
            }
            last = took.as_secs_f64();
        }
        Ok(Some(stuck))
    }

    /// Everything comes after the flip: requested by a test.
    fn give_up_all(&mut self) -> Result<()> {
        let waits = pages::both(&self.sent, &can_wait(&self.offered));
        for part in waits.chunks(DROP_RUNS) {
            write_frame(self.w, bulk::DROP, &[&talk::encode(&part.to_vec())])?;
        }
        self.given_up.push(waits);
        self.sync()
    }

    /// What was written since the last round comes after the flip. The target's old copies of it are given up.
    fn give_up(&mut self, watch: &Watch, map: &Pagemap, writes: &RwLock<()>) -> Result<()> {
        let can = can_wait(&self.offered);
        for _ in 0..DROPS_MAX {
            let mut waits = Vec::new();
            watch.round(map, writes, &mut |backing, runs| match backing {
                Backing::Memory => {
                    waits.extend(pages::both(runs, &can));
                    self.runs(&pages::minus(runs, &can))
                }
                Backing::File => self.runs(runs),
            })?;
            let waits = pages::union(waits, &[]);
            for part in waits.chunks(DROP_RUNS) {
                write_frame(self.w, bulk::DROP, &[&talk::encode(&part.to_vec())])?;
            }
            self.sync()?;
            point(Failpoint::SourceGivenUp);
            let bytes = pages::total(&waits);
            self.given_up.push(waits);
            if bytes < DROP_ENOUGH {
                break;
            }
        }
        Ok(())
    }

    /// Called when the process is frozen: nothing throttles it any more.
    pub fn stands(&mut self) {
        self.slowed = None;
    }
}

/// Adjacent areas, in order, that can be scanned as one.
fn neighbours<'a>(areas: impl Iterator<Item = &'a Area>) -> Vec<(Vec<Run>, Backing)> {
    let mut all: Vec<(Vec<Run>, Backing)> = Vec::new();
    for a in areas {
        match all.last_mut() {
            Some((runs, backing))
                if *backing == a.backing() && runs.last().is_some_and(|r| r.1 == a.start) =>
            {
                runs.push(a.run());
            }
            _ => all.push((vec![a.run()], a.backing())),
        }
    }
    all
}

/// Whether a test makes all memory come after the flip, also of a process that hardly writes.
fn forced() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| std::env::var_os("ARMENTO_POSTCOPY").is_some())
}
