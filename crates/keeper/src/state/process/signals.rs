//! Signals of a process that is away: sent to its body, held while it moves, or until its host has caught up.
//!
//! From: `keeper/src/signals/route.rs`. Next: `../away.rs`.

use super::Process;
use crate::state::away::Away;
use armento_model::{Pid, Tid};
use armento_tracee::sys::{self, SigInfo};
use std::sync::atomic::Ordering;

impl Process {
    /// Whether an exec of its body must wait for signals that are on their way there.
    pub fn delay_exec(&mut self) -> bool {
        let pid = self.pid;
        self.away_mut().is_some_and(|a| a.signals.delay_exec(pid))
    }

    /// A deputy has a signal for the body: it is sent, or held. True: it waits until the host has caught up.
    pub fn signal_came(&mut self, to: Option<Tid>, info: &SigInfo) -> bool {
        let (pid, moving) = (self.pid, self.common.breaking.load(Ordering::Acquire));
        let replays = self.replays();
        let Some(away) = self.away_mut() else {
            return false;
        };
        if moving {
            away.signals.hold(to, info);
        } else if replays || away.must_wait() {
            away.signals.hold_behind(to, info);
            return true;
        } else {
            away.pass_on(pid, to, info);
            self.signal_sent(to, info);
        }
        false
    }

    /// The source of a move freezes its body: its calls are turned back, its signals held.
    pub fn begin_breaking(&mut self) {
        if let Some(away) = self.away_mut() {
            away.freeze();
        }
        self.common.breaking.store(true, Ordering::Release);
    }

    /// The move is over: signals that came meanwhile are sent to where the body is now.
    pub fn end_breaking(&mut self) {
        self.common.breaking.store(false, Ordering::Release);
        // A signal came when the calls of the record were made: it comes behind them again.
        if !self.replays() {
            self.pass_on_held(usize::MAX);
        }
    }

    /// Sends the first `most` of the signals that are held.
    fn pass_on_held(&mut self, most: usize) {
        let pid = self.pid;
        let Some(away) = self.away_mut() else {
            return;
        };
        let held = away.signals.take_held(most);
        for (tid, info) in &held {
            away.pass_on(pid, *tid, info);
        }
        for (tid, info) in &held {
            self.signal_sent(*tid, info);
        }
    }

    fn signal_sent(&self, to: Option<Tid>, info: &SigInfo) {
        if let Some(safe) = &self.safe {
            safe.record.note_signal(to, info);
        }
    }

    /// Sends up to `most` signals that waited for the host, if it has caught up.
    pub fn pass_on_backlog(&mut self, most: usize) {
        let moving = self.common.breaking.load(Ordering::Acquire);
        if !moving && !self.replays() && self.away().is_some_and(Away::takes_backlog) {
            self.pass_on_held(most);
        }
    }

    /// Whether signals are held.
    pub fn has_backlog(&self) -> bool {
        self.away().is_some_and(|a| !a.signals.held().is_empty())
    }

    /// Home's kernel queues the signals that a move kept back.
    pub(super) fn queue_held_here(&mut self) {
        let pid = self.pid;
        let held = self.away_mut().map(|a| a.signals.take_held(usize::MAX));
        for (_, info) in held.into_iter().flatten() {
            send_again(pid, &info);
        }
    }
}

/// Sends a signal that was taken from a process to it again.
fn send_again(pid: Pid, info: &SigInfo) {
    let sig = i32::from(info[0]);
    // KERNEL: rt_sigqueueinfo refuses others what kill(2) and the kernel say (si_code >= 0, SI_TKILL).
    if sys::sigqueue(pid, None, sig, info).is_err() {
        let _ = sys::kill(pid, sig);
    }
}
