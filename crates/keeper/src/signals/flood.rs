//! Signals that come faster than they can be passed on wait at home.
//!
//! From: `route.rs`. Next: `keeper/src/events/dispatch.rs` passes them on, once the host has caught up or the process has
//! moved.
//!
//! ```text
//! host is behind ──► they wait here: one of each timer, which counts the others; one of each number that does not queue
//! flood          ──► the deputy blocks the number for a moment: they wait in the kernel, which does the same
//! ```
//! Each signal stops the deputy and breaks off its call. A timer of a microsecond, whose body blocks its signal while its
//! handler makes a call, would never let the deputy make that call.

use crate::deputy::Deputy;
use crate::state::{AHEAD_MAX, BlockedSignals, Process, Tree, signal_number};
use armento_migrate::image::timers::timer_of;
use armento_tracee::call::bit;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How soon signals that wait are looked at again.
pub const BACKLOG_PAUSE: Duration = Duration::from_millis(5);

/// More signals of a process within `SPAN` (`keeper/src/state/flood.rs`) are a flood; of a timer, whose waiting signals are
/// counted (timer_getoverrun(2)), fewer are enough. So are these of a whole tree.
const FLOOD: u32 = 64;
const FLOOD_OF_TIMERS: u32 = 16;
const FLOOD_OF_TREE: u32 = 96;
/// In a flood a deputy blocks the number for so long.
const REST: Duration = Duration::from_millis(10);
/// Signals of job control are never blocked.
const NEVER_SHUT: u64 = bit(libc::SIGKILL)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGCONT);

/// The signals of `signals` that are blocked for this reason only, and not because the process reads them from a
/// descriptor.
fn unread(d: &Deputy, signals: u64) -> u64 {
    signals & !d.common.signalfds.load(Ordering::Relaxed)
}

/// A deputy has stopped for a signal, which was passed on. In a flood it blocks that number for a moment.
pub fn block_flood(t: &mut Tree, d: &Deputy, info: &SigInfo) {
    let signal = bit(signal_number(info)) & !NEVER_SHUT;
    let most = match timer_of(info) {
        Some(_) => FLOOD_OF_TIMERS,
        None => FLOOD,
    };
    let all = t.signals.flood.exceeds(FLOOD_OF_TREE);
    let away = t.procs.get_mut(&d.pid).and_then(Process::away_mut);
    let flood = away.is_some_and(|a| a.signals.is_flood(most)) || all;
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
    let before = t.signals.blocked.remove(&d.tid);
    let signals = signal | before.as_ref().map_or(0, |s| s.signals);
    let same = before.filter(|s| s.masks.1 == mask);
    let masks = (same.map_or(mask, |s| s.masks.0), with);
    let until = Instant::now() + REST;
    let shut = BlockedSignals {
        signals,
        masks,
        until,
    };
    t.signals.blocked.insert(d.tid, shut);
}

/// A deputy stands in a stop of ours: what it blocks for a flood is unblocked. True if there was any.
pub fn unblock(t: &mut Tree, d: &Deputy) -> bool {
    let Some(shut) = t.signals.blocked.remove(&d.tid) else {
        return false;
    };
    let closed = d.slot.idle();
    let open = closed & !unread(d, shut.signals);
    d.slot.set_idle(open);
    let mask = match trace::sigmask(d.tid) {
        Ok(now) if now == shut.masks.1 => shut.masks.0,
        Ok(now) if now == closed => open,
        // The mask of a call, which contains none of these.
        _ => return true,
    };
    trace::set_sigmask(d.tid, mask).is_ok()
}

/// A deputy was made by one that may block signals for a moment, and began with what that one blocks.
pub fn inherit_blocked(t: &mut Tree, d: &Deputy) {
    let all = t.signals.blocked.values().fold(0, |m, s| m | s.signals);
    let idle = d.slot.idle();
    let signals = unread(d, all & idle);
    if signals != 0 {
        let shut = BlockedSignals {
            signals,
            masks: (idle & !signals, idle),
            until: Instant::now() + REST,
        };
        t.signals.blocked.insert(d.tid, shut);
    }
}

/// Stops deputies that have blocked signals for long enough: see [`unblock`].
pub fn end_blocked(t: &mut Tree) {
    let keep = t.keep.clone();
    // A thread that is no deputy any more has its program's own mask.
    t.signals
        .blocked
        .retain(|tid, _| keep.deputy(*tid).is_some());
    let now = Instant::now();
    for (tid, shut) in t.signals.blocked.iter_mut().filter(|(_, s)| s.until < now) {
        shut.until = now + REST;
        let _ = trace::interrupt(*tid);
    }
}

/// Passes on what waits, where the host has caught up.
pub fn pass_on_backlog(t: &mut Tree) {
    for p in t.procs.values_mut() {
        p.pass_on_backlog(AHEAD_MAX as usize);
    }
    t.signals.backlog = t.procs.values().any(Process::has_backlog);
}
