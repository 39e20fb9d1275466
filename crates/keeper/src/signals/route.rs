//! Stops of deputies: signals go to the body, stops of job control happen here, calls are broken.
//!
//! From: `keeper/src/events/dispatch.rs`. Next: `interrupted_calls.rs`, `flood.rs`,
//! `keeper/src/traced/cpu_clock_fixup.rs` (at home).
//!
//! A deputy's kernel sees a signal first. It is taken away from the deputy, sent to the body, and only
//! then is the interrupted call's result let out: the body's kernel gets them in that order.

use super::flood::{block_flood, unblock};
use super::interrupted_calls::{force_result, turn_back_exec};
use crate::state::{Keep, Process, Tree};
use crate::traced::{entry_stopped, follow_stopped, watched_stopped};
use armento_migrate::image::timers;
use armento_migrate::stop_threads::Halted;
use armento_model::{HomePid, Pid, Tid};
use armento_tracee::call::bit;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::timers::list as timers_of;
use armento_tracee::trace::{self, Stop, Stopped};
use armento_tracee::tracer_thread::World;
use armento_tracee::{owners, status};
use armento_wire::talk::ToHost;
use std::time::Duration;

const STOPS: u64 =
    bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);
/// Signals for children that are not known yet, which takes as long as a message between two threads.
const EARLY_MAX: usize = 1024;

pub fn thread_stopped(t: &mut Tree, thread: Stopped, stop: Stop) {
    let tid = thread.tid();
    let Some(thread) = entry_stopped(t, thread, stop) else {
        return;
    };
    let Some(pid) = t.keep.deputy(tid).map(|d| d.pid) else {
        return stopped_at_home(t, thread, stop);
    };
    match stop {
        Stop::Signal(_) => signal(t, pid, thread),
        Stop::Group(_) => drop(trace::listen(thread)),
        Stop::Trap => {
            let away = t.procs.get_mut(&pid).and_then(Process::away_mut);
            if let Some(away) = away
                && away.end_stop()
            {
                away.link().send(&ToHost::Continue {
                    pid: HomePid::of_home(pid),
                });
            }
            if let (Some(d), Some(code)) = (t.keep.deputy(tid), t.code_of(pid))
                && unblock(t, &d)
            {
                // A call that any stop ends is issued again.
                let _ = force_result(&t.keep, tid, &code, false);
            }
            let _ = trace::resume(thread, 0);
        }
        Stop::Event(_) | Stop::Call => drop(trace::resume(thread, 0)),
    }
}

/// Each of these returns a thread that it does not know, stopped as before.
fn stopped_at_home(t: &mut Tree, thread: Stopped, stop: Stop) {
    let other = watched_stopped(t, thread, stop);
    if let Some(thread) = other.and_then(|thread| follow_stopped(t, thread, stop)) {
        pass(t, thread, stop);
    }
}

/// A thread of a process at home, seized on the way out or in: not ours. Or a deputy's child that is not known yet: its
/// signals are kept until it is known.
fn pass(t: &mut Tree, thread: Stopped, stop: Stop) {
    let tid = thread.tid();
    let _ = match stop {
        Stop::Signal(sig) if t.passing.contains(&tid) || !newborn(t, tid) => {
            trace::resume(thread, sig)
        }
        Stop::Signal(_) => {
            if let Ok(info) = trace::siginfo(tid)
                && t.signals.unclaimed.len() < EARLY_MAX
            {
                t.signals.unclaimed.push((tid, info));
            }
            trace::resume(thread, 0)
        }
        Stop::Group(_) => trace::listen(thread),
        _ => trace::resume(thread, 0),
    };
}

/// Whether a deputy made it.
fn newborn(t: &Tree, tid: Tid) -> bool {
    status::read(tid).is_ok_and(|s| t.made_away(tid, &s))
}

/// A child of a deputy is known now.
pub fn child_known(t: &mut Tree, pid: Pid, tid: Tid) {
    for (_, info) in t
        .signals
        .unclaimed
        .extract_if(.., |(to, _)| *to == tid)
        .collect::<Vec<_>>()
    {
        pass_to_body(t, pid, tid, &info);
    }
}

/// Sends a signal to the body, or keeps it while the process moves.
fn pass_to_body(t: &mut Tree, pid: Pid, tid: Tid, info: &SigInfo) {
    let directed = is_thread_directed(&t.keep, pid, tid, info).then_some(tid);
    if let Some(p) = t.procs.get_mut(&pid) {
        t.signals.backlog |= p.signal_came(directed, info);
    }
}

/// SIGCONT throws away a stop that waits. Taken by two deputies, the two have lost their order: a process that waits to
/// see another go on and then stops it again is to see it stop.
fn continue_first(t: &mut Tree, pid: Pid, tid: Tid) {
    let p = t.procs.get(&pid);
    let tids = p.map_or_else(Vec::new, Process::deputy_tids);
    for other in tids.into_iter().filter(|other| *other != tid) {
        if let Ok(status) = trace::wait_for(other, Duration::ZERO) {
            World::report(t, other, status);
        }
    }
}

/// The signals of halted threads in the order in which they are passed on: see [`continue_first`].
pub fn in_order(halted: &[Halted]) -> Vec<(Tid, SigInfo)> {
    let with = halted.iter().filter_map(|h| Some((h.tid(), h.signal?)));
    let mut all: Vec<_> = with.collect();
    all.sort_by_key(|(_, (sig, _))| *sig != libc::SIGCONT);
    all.into_iter()
        .map(|(tid, (_, info))| (tid, info))
        .collect()
}

fn signal(t: &mut Tree, pid: Pid, thread: Stopped) {
    let tid = thread.tid();
    let Ok(info) = trace::siginfo(tid) else {
        return;
    };
    if STOPS & bit(info[0].into()) != 0 {
        continue_first(t, pid, tid);
    }
    pass_to_body(t, pid, tid, &info);
    if let Some(code) = t.code_of(pid) {
        let exec = turn_back_exec(&t.keep, tid);
        let _ = force_result(&t.keep, tid, &code, exec);
    }
    if let Some(d) = t.keep.deputy(tid) {
        block_flood(t, &d, &info);
    }
    let _ = trace::resume(thread, 0);
}

/// Whether a signal was meant for this thread alone. Which deputy took it does not tell: the kernel passes over one
/// that has a signal already, or stands still. Called once a signal.
pub fn is_thread_directed(keep: &Keep, pid: Pid, tid: Tid, info: &SigInfo) -> bool {
    let word = |at: usize| i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default());
    match sys::siginfo_code(info) {
        libc::SI_TKILL => true,
        libc::SI_TIMER => {
            let all = timers_of(pid);
            let timer = all.iter().find(|t| Some(t.id) == timers::timer_of(info));
            // One that was deleted meanwhile tells no more.
            timer.map_or(tid != pid, |t| t.thread == Some(tid))
        }
        // KERNEL: what the thread's own write has earned it (send_sig to current) says that it sent it, as kill(2) does.
        libc::SI_USER if [libc::SIGPIPE, libc::SIGXFSZ].contains(&word(0)) => {
            word(16) == pid && write_failed(tid)
        }
        _ => keep.thread_directed.take(tid, info) || owners::for_thread(pid, tid, info),
    }
}

/// Whether the call that a stopped thread ends just now says EPIPE or EFBIG.
fn write_failed(tid: Tid) -> bool {
    let ret = trace::regs(tid).map(|r| -(r.rax as i64));
    ret.is_ok_and(|e| [libc::EPIPE, libc::EFBIG].contains(&(e as i32)))
}
