//! `armento run --spread`: forks and execs of a tree's programs at home are followed, so that each program is
//! placed at the moment of its exec.
//!
//! From: `keeper/src/signals/route.rs` (stops). Next: `keeper/src/moves/placement.rs` (where it runs).
//!
//! A process at home stays seized. It stops at forks, execs and signals and runs at full speed otherwise. A child stops at
//! its calls, too, until it execs, for the first of them: one that is about to be traced by its parent (a debugger's) is
//! let go before. A process that is stopped by job control is let go, too.

use super::call_stops::{at_entry, must_be_untraced};
use crate::restart::{SpuriousWakeups, signal_ends_call};
use crate::state::Tree;
use armento_abi::Restart;
use armento_migrate::image::restarts::ERESTARTNOHAND;
use armento_migrate::stop_threads::{StoppedThreads, without_effect};
use armento_model::{Pid, Tid};
use armento_tracee::call::bit;
use armento_tracee::status;
use armento_tracee::trace::{self, Stop, Stopped};

/// Stops at calls of a child before its exec: a shell makes a dozen calls there, python some twenty. A child that has
/// not exec'd after twice as many is no debugger's.
const STOPS_MAX: u32 = 100;

/// A stop of a thread at home. Returns the thread when it is not followed.
pub fn follow_stopped(t: &mut Tree, thread: Stopped, stop: Stop) -> Option<Stopped> {
    let tid = thread.tid();
    let known = t.follow.threads.contains_key(&tid);
    if !t.follow.on || !(known || stop == Stop::Trap && newborn(t, tid)) {
        return Some(thread);
    }
    // One that died meanwhile needs nothing.
    let _ = match stop {
        Stop::Signal(sig) => at_signal(t, thread, sig),
        // It may wait for a tracer of its own (strace), and others are to see it stopped, not traced.
        // One that is to begin from a file must not begin otherwise.
        Stop::Group(_) if t.keep.restarts.is_some() => trace::listen(thread),
        Stop::Group(_) => t.follow.let_go(thread),
        // A move that was given up may have left it other options.
        Stop::Trap => trace::set_options(tid, trace::FOLLOW).and_then(|()| t.follow.go(thread, 0)),
        Stop::Call => at_call(t, thread),
        Stop::Event(_) => t.follow.go(thread, 0),
    };
    None
}

/// The first stop of a child of a followed thread. Children of deputies are known by their process.
fn newborn(t: &mut Tree, tid: Tid) -> bool {
    let Some(s) = t.born_at_home(tid) else {
        return false;
    };
    t.follow.threads.insert(tid, s.tgid);
    if s.tgid == tid {
        t.follow.not_execed.insert(tid, STOPS_MAX);
        t.child_found(tid, s.ppid);
    }
    true
}

fn at_call(t: &mut Tree, thread: Stopped) -> trace::Result<()> {
    let tid = thread.tid();
    let pid = t.follow.threads.get(&tid).copied().unwrap_or(tid);
    if must_be_untraced(pid, tid) {
        return t.follow.let_go(thread);
    }
    if t.follow.wakeups.has(tid) {
        let mut r = trace::regs(tid)?;
        if at_entry(&r) {
            t.follow.wakeups.entered(tid, r.orig_rax);
        } else if t.follow.wakeups.ended(tid, &mut r) {
            trace::set_regs(tid, &r)?;
        }
    }
    if let Some(left) = t.follow.not_execed.get_mut(&tid) {
        *left -= 1;
        if *left == 0 {
            t.follow.not_execed.remove(&tid);
        }
    }
    t.follow.go(thread, 0)
}

/// Traced, a thread is woken by signals without effect, and some calls end by that. A call that has done a part is
/// restarted until its end.
fn at_signal(t: &mut Tree, thread: Stopped, sig: i32) -> trace::Result<()> {
    let tid = thread.tid();
    let nothing = |s: status::ProcStatus| without_effect(&s) & bit(sig) != 0;
    if status::read(tid).is_ok_and(nothing) && !signal_ends_call(tid) {
        let pid = t.follow.threads.get(&tid).copied().unwrap_or(tid);
        if t.cpu_fixup.finish_partial_io(pid, tid)? {
            t.follow.threads.remove(&tid);
            return trace::resume_to_call(thread, sig);
        }
        undo_wake(&mut t.follow.wakeups, tid)?;
    }
    t.follow.go(thread, sig)
}

/// The kernel issues a call again that has ended by that, unless a handler runs.
fn undo_wake(wakes: &mut SpuriousWakeups, tid: Tid) -> trace::Result<()> {
    let mut r = trace::regs(tid)?;
    let eintr = r.rax as i64 == -i64::from(libc::EINTR) && r.orig_rax as i64 >= 0;
    let row = armento_abi::row(r.orig_rax).filter(|_| eintr);
    if row.is_some_and(|row| row.restart == Restart::Eintr) {
        r.rax = ERESTARTNOHAND as u64;
        wakes.woken(tid, &mut r);
        trace::set_regs(tid, &r)?;
    }
    Ok(())
}

/// A stopped thread at home goes on, with this signal (0: none), and is followed.
pub fn follow_thread(t: &mut Tree, (thread, sig): (Stopped, i32), pid: Pid) -> trace::Result<()> {
    let tid = thread.tid();
    t.follow.threads.insert(tid, pid);
    trace::set_options(tid, trace::FOLLOW)?;
    t.follow.go(thread, sig)
}

/// So does a process whose move is over.
pub fn follow_process(t: &mut Tree, pid: Pid, stopped: StoppedThreads) {
    for tid in &stopped.seized {
        t.follow.threads.insert(*tid, pid);
    }
    for h in stopped.disband() {
        // One that died meanwhile needs nothing.
        let _ = trace::set_options(h.tid(), trace::FOLLOW);
        let _ = h.go(|thread, sig| t.follow.go(thread, sig));
    }
}
