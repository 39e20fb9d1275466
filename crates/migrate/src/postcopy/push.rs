//! The source after the flip: sends pages that the program waits for first, and all others in between.
//!
//! From: `migrate/src/source/mod.rs`. Facing it: `fetch.rs`.
//!
//! The background sweep gets its share however many pages are requested, and stays at most [`WINDOW`] ahead of the
//! target, so that requested pages do not queue after it.

use crate::failpoint::point;
use crate::pages::Unsent;
use crate::phase::Failpoint;
use crate::source::Job;
use crate::{Local, MigrateError, Result};
use armento_tracee::PAGE;
use armento_wire::{bulk, read_frame, write_frame};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes in flight up to which the sweep continues: half a millisecond of a fast link, 5 ms of a gigabit.
const WINDOW: u64 = 512 << 10;
/// Bytes of one step of the sweep.
const STEP: u64 = 128 << 10;
/// Bytes sent with a requested page, and the most that is sent with one in a sequence.
const AROUND: u64 = 16 * PAGE;
const AROUND_MAX: u64 = 1 << 20;
/// Limit of pages requested and not answered: a thread waits for each.
const WANTS_MAX: usize = 65536;
/// A target that receives nothing for so long is considered dead. The same time that home waits for a host (`dead_ms`).
const SILENT_MAX: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Received {
    wants: VecDeque<u64>,
    taken: u64,
    /// `true`: the target has everything. `false`: the connection broke.
    over: Option<bool>,
}

#[derive(Default)]
struct Answers {
    received: Mutex<Received>,
    changed: Condvar,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the target's messages until they end.
    fn read_all(&self, r: &mut impl Read) {
        let mut buf = Vec::new();
        loop {
            let kind = read_frame(r, &mut buf);
            let word = || -> Option<u64> { Some(u64::from_le_bytes(*buf.first_chunk()?)) };
            let mut h = self.lock();
            match (kind, word()) {
                (Ok(bulk::WANT), Some(at)) if h.wants.len() < WANTS_MAX => h.wants.push_back(at),
                (Ok(bulk::TAKEN), Some(n)) => h.taken = h.taken.saturating_add(n),
                (Ok(bulk::WHOLE), _) => h.over = Some(true),
                _ => h.over = Some(false),
            }
            self.changed.notify_one();
            if h.over.is_some() {
                return;
            }
        }
    }

    /// Waits until `wanted` is true; an error if that can no longer happen.
    fn wait(&self, mut wanted: impl FnMut(&Received) -> bool) -> Result<MutexGuard<'_, Received>> {
        let waits = |h: &mut Received| h.over.is_none() && !wanted(h);
        let (h, late) = self
            .changed
            .wait_timeout_while(self.lock(), SILENT_MAX, waits)
            .unwrap_or_else(PoisonError::into_inner);
        match h.over {
            Some(false) => Err(MigrateError::Ended),
            None if late.timed_out() => Err(MigrateError::Ended),
            _ => Ok(h),
        }
    }
}

/// Sequential requests: each gets a larger answer than the one before.
#[derive(Default)]
struct Row {
    next: u64,
    len: u64,
}

impl Row {
    fn range_for(&mut self, at: u64) -> (u64, u64) {
        let follows = at >= self.next.saturating_sub(AROUND) && at <= self.next + AROUND;
        self.len = match follows && self.len > 0 {
            true => (self.len * 2).min(AROUND_MAX),
            false => AROUND,
        };
        self.next = at.saturating_add(self.len);
        (at, self.next)
    }
}

impl<R: Read + Send, W: Write> Job<'_, R, W> {
    /// Whether pages may come after the flip.
    pub fn may_owe(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Whether pages do come after the flip.
    pub fn owes(&self) -> bool {
        self.unsent.left() > 0
    }

    /// Sends what is left, until the target has all of it. `cut` ends the connection, so that no thread blocks reading
    /// it forever. Before: flipped, or about to be; the memory stays as it was frozen. After an error the process ends
    /// at the target: it ran there already.
    pub fn serve(&mut self, cut: &(dyn Fn() + Sync)) -> Result<()> {
        let mut unsent = std::mem::take(&mut self.unsent);
        if unsent.left() == 0 {
            return Ok(());
        }
        let r = self.r.take().ok_or(MigrateError::Ended)?;
        let answers = Answers::default();
        std::thread::scope(|s| {
            let hears = std::thread::Builder::new().name("wants".into());
            hears
                .spawn_scoped(s, || answers.read_all(r))
                .local("start a thread")?;
            let sent = self.sweep(&mut unsent, &answers);
            let sent = sent.and_then(|()| answers.wait(|_| false).map(drop));
            if sent.is_err() {
                cut();
            }
            sent
        })
    }

    fn sweep(&mut self, unsent: &mut Unsent, answers: &Answers) -> Result<()> {
        let (mut sent, mut row) = (0, Row::default());
        let mut swept = true;
        loop {
            let want = {
                let mut h = answers.wait(|h| !h.wants.is_empty() || sent < h.taken + WINDOW)?;
                // Alternates, so that neither starves the other.
                let turn = swept || sent >= h.taken + WINDOW;
                if turn { h.wants.pop_front() } else { None }
            };
            let runs = match want {
                Some(at) => unsent.take(row.range_for(at)),
                None => unsent.next(STEP),
            };
            swept = want.is_none();
            if runs.is_empty() && swept && unsent.left() == 0 {
                write_frame(self.w, bulk::LAST, &[])?;
                return Ok(());
            }
            point(Failpoint::SourceSweeping);
            sent += self.now(&runs)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_requests_grow_and_a_jump_resets() {
        let mut row = Row::default();
        let lens: Vec<u64> = [0, AROUND, 3 * AROUND, 7 * AROUND]
            .map(|at| {
                let (s, e) = row.range_for(at + (1 << 30));
                e - s
            })
            .into();
        assert_eq!(lens, [AROUND, 2 * AROUND, 4 * AROUND, 8 * AROUND]);
        assert_eq!(row.range_for(0), (0, AROUND));
    }
}
