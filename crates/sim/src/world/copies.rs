//! Processes that copy files of their home: they compute, read and write in turn.

use super::copying::PARTS;
use super::state::World;
use super::things::{Chore, Event};
use crate::machine::TaskId;
use std::collections::HashMap;

/// Bytes of one read or write of a copying program.
const BLOCK: u64 = 64 << 10;
/// Calls of a part that wait for home: files are read ahead, and writes posted.
const WAITS: u64 = 2;
/// Work at home of a call, and of a byte. Measured: `docs/measurements/files.md`.
const CALL_NS: u64 = 30_000;
const BYTE_NS: u64 = 1;
/// Homes are told round trips in farms of up to this size.
const TOLD_MAX: usize = 256;

impl World {
    /// Its computing has ended: a part of it, or all.
    pub(super) fn computed(&mut self, task: TaskId) {
        let Some(copy) = self.procs[task].job.copy else {
            return self.ended(task);
        };
        self.pass_time(task);
        let proc = &mut self.procs[task];
        let home = proc.job.home;
        let is_away = proc.place != home;
        proc.running = None;
        proc.copying.waits = true;
        let bytes = copy.bytes / PARTS;
        let mut wait_us = copy.wait_us / PARTS;
        if is_away {
            let calls = &mut proc.copying.calls;
            let posts = bytes.div_ceil(BLOCK);
            calls.waits += WAITS;
            calls.posts += posts;
            calls.sent += bytes;
            calls.received += bytes;
            wait_us += 2 * bytes * 8 / self.policy.link_mbit.max(1);
            wait_us += WAITS * 2 * self.prices.hop_us;
            let work = (WAITS + posts) * CALL_NS + 2 * bytes * BYTE_NS;
            self.chore(home, Chore::Serve, work);
        }
        self.after(wait_us, Event::Waited(task));
    }

    /// It has read and written a part.
    pub(super) fn waited(&mut self, task: TaskId) {
        let proc = &mut self.procs[task];
        if !proc.lives() {
            return;
        }
        self.pass_time(task);
        let proc = &mut self.procs[task];
        proc.copying.waits = false;
        if proc.copying.parts_left == 0 {
            return self.ended(task);
        }
        proc.copying.parts_left -= 1;
        proc.left_ns = proc.job.work_ns / PARTS;
        if !proc.stands {
            self.enter(task);
        }
    }

    /// Work of its present part at its begin.
    pub(super) fn part_ns(job: &super::things::Job) -> u64 {
        match job.copy {
            Some(_) => job.work_ns / PARTS,
            None => job.work_ns,
        }
    }

    /// Counts the time since the last change as runnable or not.
    fn pass_time(&mut self, task: TaskId) {
        let now = self.now;
        let progress = &mut self.procs[task].copying;
        if !progress.waits {
            progress.runnable_us += now.saturating_sub(progress.at_us);
        }
        progress.at_us = now;
    }

    /// Before its keeper reports: how busy it was since the last report.
    pub(super) fn look_at_copies(&mut self, home: usize) {
        let copies = |task: &TaskId| self.procs[*task].job.copy.is_some();
        let ours: Vec<TaskId> = self.homes[home].iter().copied().filter(copies).collect();
        for task in ours {
            self.pass_time(task);
            let now = self.now;
            let progress = &mut self.procs[task].copying;
            let (at_us, runnable_us) = progress.told_us;
            let ran_us = progress.runnable_us - runnable_us;
            if let Some(percent) = (ran_us * 100).checked_div(now.saturating_sub(at_us)) {
                progress.busy_percent = percent.min(100) as u8;
                progress.told_us = (now, progress.runnable_us);
            }
        }
    }

    /// Homes know the round trips to other nodes.
    pub(super) fn tell_round_trips(&mut self) {
        if self.names.len() > TOLD_MAX || self.told {
            return;
        }
        self.told = true;
        let rtt_us = 2 * self.prices.hop_us;
        let all: HashMap<_, _> = self.names.iter().map(|n| (n.clone(), rtt_us)).collect();
        for daemon in &mut self.daemons {
            daemon.ledger.round_trips(all.clone());
        }
    }
}
