//! The source behind the flip: pages that the program waits for first, and all others between them.
//!
//! From: `source.rs`. Facing it: `fetch.rs`.
//!
//! The sweep has its share however many pages are asked for, and goes only as far ahead of the target as [`WINDOW`]:
//! what is asked for does not stand in line behind it.

use crate::fault::point;
use crate::later::Unsent;
use crate::source::Job;
use crate::{Local, MigrateError, Result};
use armento_tracee::PAGE;
use armento_wire::{bulk, read_frame, write_frame};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes on their way when the sweep goes on: half a millisecond of a fast link, 5 ms of a gigabit.
const WINDOW: u64 = 512 << 10;
/// Bytes of the sweep in one go.
const STEP: u64 = 128 << 10;
/// What goes along with a page that is asked for, and how much with one in a row of such.
const AROUND: u64 = 16 * PAGE;
const AROUND_MAX: u64 = 1 << 20;
/// Pages asked for and not answered: each has a thread that waits for it.
const WANTS_MAX: usize = 65536;
/// A target that takes nothing for so long is gone. As long as home waits for a host (`dead_ms`).
const SILENT_MAX: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Heard {
    wants: VecDeque<u64>,
    taken: u64,
    /// `true`: everything is there. `false`: the connection broke.
    over: Option<bool>,
}

#[derive(Default)]
struct Ear {
    heard: Mutex<Heard>,
    news: Condvar,
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the target says until it says nothing more.
    fn listen(&self, r: &mut impl Read) {
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
            self.news.notify_one();
            if h.over.is_some() {
                return;
            }
        }
    }

    /// Waits until `wanted`; an error when that will not be.
    fn wait(&self, mut wanted: impl FnMut(&Heard) -> bool) -> Result<MutexGuard<'_, Heard>> {
        let waits = |h: &mut Heard| h.over.is_none() && !wanted(h);
        let (h, late) = self
            .news
            .wait_timeout_while(self.lock(), SILENT_MAX, waits)
            .unwrap_or_else(PoisonError::into_inner);
        match h.over {
            Some(false) => Err(MigrateError::Ended),
            None if late.timed_out() => Err(MigrateError::Ended),
            _ => Ok(h),
        }
    }
}

/// Who asks for one page after the other gets ever more with each.
#[derive(Default)]
struct Row {
    next: u64,
    len: u64,
}

impl Row {
    fn asked(&mut self, at: u64) -> (u64, u64) {
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
    /// Will something come behind the flip, perhaps?
    pub fn may_owe(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Does something?
    pub fn owes(&self) -> bool {
        self.unsent.left() > 0
    }

    /// Sends what is left, until the target has all of it. `cut` ends the connection, so that nobody reads from it
    /// for ever. Before: flipped, or about to be; the memory stays as it was frozen. After an error the process ends
    /// at the target: it was there already.
    pub fn serve(&mut self, cut: &(dyn Fn() + Sync)) -> Result<()> {
        let mut unsent = std::mem::take(&mut self.unsent);
        if unsent.left() == 0 {
            return Ok(());
        }
        let r = self.r.take().ok_or(MigrateError::Ended)?;
        let ear = Ear::default();
        std::thread::scope(|s| {
            let hears = std::thread::Builder::new().name("wants".into());
            hears
                .spawn_scoped(s, || ear.listen(r))
                .local("start a thread")?;
            let sent = self.sweep(&mut unsent, &ear);
            let sent = sent.and_then(|()| ear.wait(|_| false).map(drop));
            if sent.is_err() {
                cut();
            }
            sent
        })
    }

    fn sweep(&mut self, unsent: &mut Unsent, ear: &Ear) -> Result<()> {
        let (mut sent, mut row) = (0, Row::default());
        let mut swept = true;
        loop {
            let want = {
                let mut h = ear.wait(|h| !h.wants.is_empty() || sent < h.taken + WINDOW)?;
                // In turn: neither starves the other.
                let turn = swept || sent >= h.taken + WINDOW;
                if turn { h.wants.pop_front() } else { None }
            };
            let runs = match want {
                Some(at) => unsent.take(row.asked(at)),
                None => unsent.next(STEP),
            };
            swept = want.is_none();
            if runs.is_empty() && swept && unsent.left() == 0 {
                write_frame(self.w, bulk::LAST, &[])?;
                return Ok(());
            }
            point("source.sweeping");
            sent += self.now(&runs)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_grows_and_a_leap_begins_anew() {
        let mut row = Row::default();
        let lens: Vec<u64> = [0, AROUND, 3 * AROUND, 7 * AROUND]
            .map(|at| {
                let (s, e) = row.asked(at + (1 << 30));
                e - s
            })
            .into();
        assert_eq!(lens, [AROUND, 2 * AROUND, 4 * AROUND, 8 * AROUND]);
        assert_eq!(row.asked(0), (0, AROUND));
    }
}
