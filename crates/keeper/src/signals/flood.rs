//! Signals that come faster than they can be passed on wait at home.
//!
//! From: `signals.rs`. Next: `tree.rs` passes them on, once the host has caught up or the process has moved.
//!
//! ```text
//! host is behind ──► they wait here: of one timer's one, which counts the others; of the numbers that do not queue one
//! flood          ──► the deputy blocks the number for a moment: they wait in the kernel, which does the same
//! ```
//! Each signal stops the deputy and breaks off its call. A timer of a microsecond, whose body blocks its signal while its
//! handler makes a call, would never let the deputy make that call.

use crate::deputy::thread::Deputy;
use crate::hosts::connect::HostLink;
use crate::signals::requeue::{self, FIRST_REALTIME};
use crate::state::tree::{Proc, Tree};
use armento_migrate::image::timers::{self, timer_of};
use armento_model::Tid;
use armento_tracee::inject::bit;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Messages that a host may be behind before signals wait: it hears some hundred thousand in a second.
const AHEAD_MAX: u64 = 1024;
/// Signals that wait for one process. KERNEL: senders are told EAGAIN at RLIMIT_SIGPENDING, which nobody can do here.
const WAIT_MAX: usize = 1 << 17;
/// How soon they are looked at again.
pub const LOOK: Duration = Duration::from_millis(5);

/// A process that has more signals in this time has a flood of them, and so has a tree. Of a timer's fewer are enough: those
/// that wait are counted (timer_getoverrun(2)). …
const SPAN: Duration = Duration::from_millis(10);
const FLOOD: u32 = 64;
const FLOOD_OF_TIMERS: u32 = 16;
const FLOOD_OF_TREE: u32 = 96;
/// … and its deputy has none of that number for so long.
const REST: Duration = Duration::from_millis(10);
/// Job control is not held up.
const NEVER_SHUT: u64 = bit(libc::SIGKILL)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGCONT);

/// The signals of a process, or of a tree, within [`SPAN`].
#[derive(Default)]
pub struct Flood {
    since: Option<Instant>,
    count: u32,
}

impl Flood {
    /// One more: are they too many?
    fn rises(&mut self, most: u32) -> bool {
        if self.since.is_none_or(|s| s.elapsed() > SPAN) {
            (self.since, self.count) = (Some(Instant::now()), 0);
        }
        self.count += 1;
        self.count > most
    }
}

/// What a deputy blocks for a moment.
pub struct Shut {
    signals: u64,
    /// Its mask without them, and with them. A call with a mask of its own sets another meanwhile.
    masks: (u64, u64),
    until: Instant,
}

/// What of `signals` is blocked for this reason only, and not because the process reads it from a descriptor.
fn unread(d: &Deputy, signals: u64) -> u64 {
    signals & !d.common.signalfds.load(Ordering::Relaxed)
}

fn behind(link: &HostLink) -> bool {
    link.session.unheard() > AHEAD_MAX
}

impl Proc {
    /// Must a signal wait, because its host is behind or others wait already?
    pub fn backs_up(&self) -> bool {
        !self.held.is_empty() || self.link().is_some_and(|l| behind(l))
    }

    /// Before: [`Proc::backs_up`].
    pub fn wait(&mut self, to: Option<Tid>, info: &SigInfo) {
        let same = |(t, i): &(Option<Tid>, SigInfo)| *t == to && i[..4] == info[..4];
        let queues = requeue::number(info) >= FIRST_REALTIME;
        if self.held.len() < WAIT_MAX && (queues || !self.held.iter().any(same)) {
            timers::hold(&mut self.held, to, info);
        }
    }
}

impl Tree {
    /// A deputy has stopped for a signal, which was passed on. In a flood it blocks that number for a moment.
    pub fn shut_out(&mut self, d: &Deputy, info: &SigInfo) {
        let signal = bit(requeue::number(info)) & !NEVER_SHUT;
        let most = match timer_of(info) {
            Some(_) => FLOOD_OF_TIMERS,
            None => FLOOD,
        };
        let all = self.flood.rises(FLOOD_OF_TREE);
        let own = |p: &mut Proc| p.flood.rises(most);
        let flood = self.procs.get_mut(&d.pid).is_some_and(own) || all;
        if signal == 0 || !flood {
            return;
        }
        let Ok(mask) = trace::sigmask(d.tid) else {
            return;
        };
        let with = mask | signal;
        if trace::set_sigmask(d.tid, with).is_err() {
            return;
        }
        // What the deputy goes back to after a call with a mask of its own.
        d.slot.set_idle(d.slot.idle() | signal);
        let before = self.shut.remove(&d.tid);
        let signals = signal | before.as_ref().map_or(0, |s| s.signals);
        let same = before.filter(|s| s.masks.1 == mask);
        let masks = (same.map_or(mask, |s| s.masks.0), with);
        let until = Instant::now() + REST;
        let shut = Shut {
            signals,
            masks,
            until,
        };
        self.shut.insert(d.tid, shut);
    }

    /// A deputy stands in a stop of ours: it blocks nothing more for that reason. True if it did.
    pub fn open_up(&mut self, d: &Deputy) -> bool {
        let Some(shut) = self.shut.remove(&d.tid) else {
            return false;
        };
        let closed = d.slot.idle();
        let open = closed & !unread(d, shut.signals);
        d.slot.set_idle(open);
        let mask = match trace::sigmask(d.tid) {
            Ok(now) if now == shut.masks.1 => shut.masks.0,
            Ok(now) if now == closed => open,
            // That of a call, which knows nothing of ours.
            _ => return true,
        };
        trace::set_sigmask(d.tid, mask).is_ok()
    }

    /// A deputy was made by one that may block signals for a moment, and began with what that one blocks.
    pub fn inherits_shut(&mut self, d: &Deputy) {
        let all = self.shut.values().fold(0, |m, s| m | s.signals);
        let idle = d.slot.idle();
        let signals = unread(d, all & idle);
        if signals != 0 {
            let shut = Shut {
                signals,
                masks: (idle & !signals, idle),
                until: Instant::now() + REST,
            };
            self.shut.insert(d.tid, shut);
        }
    }

    /// Stops those that have blocked signals for long enough: see [`Tree::open_up`].
    pub fn end_shuts(&mut self) {
        let keep = self.keep.clone();
        // One that is no deputy any more has its program's own mask.
        self.shut.retain(|tid, _| keep.deputy(*tid).is_some());
        let now = Instant::now();
        for (tid, shut) in self.shut.iter_mut().filter(|(_, s)| s.until < now) {
            shut.until = now + REST;
            let _ = trace::interrupt(*tid);
        }
    }

    /// Passes on what waits, where the host has caught up.
    pub fn catch_up(&mut self) {
        let caught = |p: &&mut Proc| {
            !p.held.is_empty()
                && !p.common.breaking.load(Ordering::Acquire)
                && p.link().is_some_and(|l| !behind(l))
        };
        for p in self.procs.values_mut().filter(caught) {
            let most = p.held.len().min(AHEAD_MAX as usize);
            for (to, info) in p.held.drain(..most).collect::<Vec<_>>() {
                p.pass_on(to, &info);
            }
        }
        self.backlog = self.procs.values().any(|p| !p.held.is_empty());
    }
}
