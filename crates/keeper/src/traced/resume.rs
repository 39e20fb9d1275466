//! How a process at home goes on: untraced, followed, watched, or seized while it is moved.
//!
//! From: `keeper/src/moves/home.rs`, `keeper/src/moves/prepare.rs` (a move that failed), `keeper/src/events/exec.rs`.
//! Next: `cpu_clock_fixup.rs`, `follow_forks.rs`.

use super::call_stops::at;
use super::cpu_clock_fixup::{correct_result, wait_on};
use super::follow_forks::{follow_process, follow_thread};
use crate::state::Tree;
use armento_migrate::stop_threads::{Calls, Halted, StoppedThreads};
use armento_model::Pid;
use armento_tracee::trace;
use std::sync::Arc;
use std::time::Instant;

/// Lets a process that stays at home go on, untraced unless it is followed.
pub fn let_go(t: &mut Tree, pid: Pid) {
    t.passing.remove(&pid);
    let halted = t.take_standing(pid);
    if let Some(p) = t.procs.get_mut(&pid) {
        p.leave_exec_stop();
    }
    t.begins();
    // One that died meanwhile needs nothing.
    let Some((thread, sig)) = halted.and_then(Halted::deliver) else {
        return;
    };
    let _ = if t.follow.on {
        follow_thread(t, (thread, sig), pid)
    } else {
        trace::detach(thread, sig)
    };
}

/// What is done at stops of calls while the threads of a process are halted.
pub fn call_fixups(t: &Tree, pid: Pid) -> Calls {
    let accounts = t.cpu_fixup.has(pid).then(|| t.keep.cpu.clone());
    let restarted = t.cpu_fixup.restarted.clone();
    restarted.forget_ended(pid);
    Arc::new(move |tid| {
        let Some(mut a) = at(tid) else {
            return false;
        };
        let tells = accounts
            .as_ref()
            .is_some_and(|b| correct_result(b, pid, tid, &a));
        if a.entry {
            restarted.at_entry(tid, a.nr);
        } else if restarted.has(tid) {
            // One that died meanwhile needs nothing.
            let _ = wait_on(tid, &mut a.regs, None);
            let _ = restarted.at_end(pid, tid, &mut a.regs);
        }
        tells || a.entry && restarted.has(tid)
    })
}

/// Lets a process run on that stays seized for its move. Before: its options are set.
pub fn resume_for_move(t: &mut Tree, pid: Pid, stopped: &mut StoppedThreads) {
    for h in std::mem::take(&mut stopped.halted) {
        let restarted = t.cpu_fixup.restarted.look(pid, &h);
        if restarted {
            t.cpu_fixup.threads.insert(h.tid(), (pid, None));
        }
        let go = if restarted || t.cpu_fixup.has(pid) {
            trace::resume_to_call
        } else {
            trace::resume
        };
        let _ = h.go(go);
    }
}

/// Lets a process at home go on: untraced, or watched. A thread with a call to restart is watched so long.
pub fn resume_process(t: &mut Tree, pid: Pid, mut stopped: StoppedThreads) {
    for tid in &stopped.seized {
        t.passing.remove(tid);
    }
    let tied = t.procs.get(&pid).is_some_and(|p| p.pins.for_debugger());
    if t.keep.cpu.must_correct(pid) && !tied {
        return watch_process(t, pid, stopped);
    }
    stopped.stop_seized();
    t.cpu_fixup.procs.remove(&pid);
    t.cpu_fixup.threads.retain(|_, (p, _)| *p != pid);
    let restarted = t.cpu_fixup.restarted.clone();
    for h in stopped.halted.extract_if(.., |h| restarted.look(pid, h)) {
        stopped.seized.remove(&h.tid());
        t.cpu_fixup.threads.insert(h.tid(), (pid, None));
        let _ = watch_thread(h, t.passing_options(pid));
    }
    if t.follow.on && !tied {
        return follow_process(t, pid, stopped);
    }
    stopped.release();
}

fn watch_process(t: &mut Tree, pid: Pid, stopped: StoppedThreads) {
    t.cpu_fixup.procs.insert(pid, Instant::now());
    let options = t.passing_options(pid);
    for &tid in &stopped.seized {
        t.cpu_fixup.threads.insert(tid, (pid, None));
        if !stopped.halted.iter().any(|h| h.tid() == tid) {
            // It goes on to its next call from the stop that this makes.
            let _ = trace::interrupt(tid);
        }
    }
    for h in stopped.disband() {
        t.cpu_fixup.restarted.look(pid, &h);
        // A thread that died meanwhile needs nothing.
        let _ = watch_thread(h, options);
    }
}

fn watch_thread(h: Halted, options: u64) -> trace::Result<()> {
    trace::set_options(h.tid(), options)?;
    h.go(trace::resume_to_call)
}
