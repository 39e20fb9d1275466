//! Ends calls that deputies are in, or turns them back before they are made: for a signal, and for a move.
//!
//! From: `route.rs`, `keeper/src/calls/dispatch.rs`, `keeper/src/moves/mappings.rs`.
//! Next: the call is issued again by its body.

use crate::deputy::{Deputy, unmade_result};
use crate::state::{Keep, Process, Tree};
use armento_abi::Restart;
use armento_migrate::MigrateError;
use armento_migrate::image::restarts::{ERESTARTNOHAND, ERESTARTNOINTR};
use armento_migrate::stop_threads::delicate_call;
use armento_model::{Pid, Tid};
use armento_tracee::region::Code;
use armento_tracee::trace::{self, Status, Stop, Stopped};
use armento_tracee::tracer_thread::World;
use std::time::Duration;

/// A deputy stops in microseconds, on a loaded machine in some ticks. Given up, its body would wait for ever.
pub const STOP_MAX: Duration = Duration::from_secs(5);

/// Where the deputy's thread is, by its program counter.
#[derive(Debug, PartialEq, Eq)]
enum At {
    /// Not in a call of its body (or in one that has ended).
    Elsewhere,
    /// It has picked the call up but not made it.
    Before,
    /// In the call, interrupted.
    Interrupted,
    /// At its end, with a result above 0: perhaps a part of the bytes that it was to write, or read.
    Done(u64),
}

fn place(r: &trace::Regs, code: &Code, eintr: bool) -> At {
    let ret = r.rax as i64;
    if r.rip == code.after && (r.orig_rax as i64) >= 0 {
        let restart = (-516..=-512).contains(&ret) || eintr && ret == -i64::from(libc::EINTR);
        return match u64::try_from(ret) {
            _ if restart => At::Interrupted,
            Ok(some @ 1..) => At::Done(some),
            _ => At::Elsewhere,
        };
    }
    if r.rip > code.idle + 2 && r.rip <= code.call {
        At::Before
    } else {
        At::Elsewhere
    }
}

/// Makes an interrupted (or not yet made) call of a stopped deputy end with the kernel's restart error
/// instead of being restarted here; one that was interrupted in its midst, too, with what it has put or got. Returns
/// whether it did. `unmade`: turn back calls not yet made, too.
pub fn force_result(keep: &Keep, tid: Tid, code: &Code, unmade: bool) -> trace::Result<bool> {
    let Some(d) = keep.deputy(tid) else {
        return Ok(false);
    };
    let Some(nr) = d.call_nr() else {
        return Ok(false);
    };
    let eintr = armento_abi::row(nr.into()).is_some_and(|r| r.restart == Restart::Eintr);
    let mut r = trace::regs(tid)?;
    match place(&r, code, eintr) {
        At::Interrupted => {
            if r.rax as i64 == -i64::from(libc::EINTR) {
                r.rax = ERESTARTNOHAND as u64;
            }
        }
        At::Before if unmade => {
            r.rip = code.after;
            r.rax = unmade_result(nr) as u64;
        }
        At::Done(done) if d.ended_early(done) => r.rax = ERESTARTNOINTR as u64,
        At::Done(done) if d.cut_short(done) => {}
        _ => return Ok(false),
    }
    r.orig_rax = u64::MAX;
    trace::set_regs(tid, &r)?;
    Ok(true)
}

/// An exec would end the body, and with it the signal that is on its way there: it is issued again when
/// the body has had it. True when the deputy may have picked it up already.
pub fn turn_back_exec(keep: &Keep, tid: Tid) -> bool {
    let Some(d) = keep.deputy(tid) else {
        return false;
    };
    if let Some(c) = d.recall(|c| is_exec(c.packed.nr)) {
        d.link().reply(tid, c.seq, ERESTARTNOINTR, &[]);
        return false;
    }
    d.call_nr().is_some_and(is_exec) && !d.turn_back(|_| ERESTARTNOINTR)
}

pub fn is_exec(nr: u16) -> bool {
    matches!(i64::from(nr), libc::SYS_execve | libc::SYS_execveat)
}

/// No call of it is under way that must not be broken. Before: no new one is made meanwhile.
pub fn can_break_calls(t: &Tree, pid: Pid) -> armento_migrate::Result<()> {
    let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
    let mut calls = p.deputies().filter_map(|d| d.call());
    calls.try_for_each(|(nr, args)| delicate_call(pid, nr, &args))
}

/// Breaks every call of a body that waits at home, and turns new ones back, until the move is over.
pub fn break_calls(t: &mut Tree, pid: Pid) {
    let Some(code) = t.code_of(pid) else {
        return;
    };
    let Some(p) = t.procs.get_mut(&pid) else {
        return;
    };
    p.begin_breaking();
    let tids = p.deputy_tids();
    t.keep.held_opens.turn_back(pid);
    t.keep.held_output.turn_back(pid);
    if let Some(calls) = &t.keep.storm_call {
        calls.turn_back(pid);
    }
    for tid in tids {
        break_call(t, tid, &code);
        if let Some(d) = t.keep.deputy(tid) {
            // Its call has ended: its host has to know that before it is told that all have.
            d.link().names.requests.let_go(tid);
        }
    }
}

/// Breaks calls of a body that wait at home, those that `which` names by number and arguments.
pub fn break_calls_that(t: &mut Tree, pid: Pid, which: impl Fn(i64, &[u64; 6]) -> bool) {
    let Some(code) = t.code_of(pid) else {
        return;
    };
    let tids = t.procs.get(&pid).map(Process::deputy_tids);
    for tid in tids.unwrap_or_default() {
        let call = t.keep.deputy(tid).and_then(|d| d.call());
        if call.is_some_and(|(nr, args)| which(nr, &args)) {
            break_call(t, tid, &code);
        }
    }
}

fn break_call(t: &mut Tree, tid: Tid, code: &Code) {
    let Some(d) = t.keep.deputy(tid) else {
        return;
    };
    if let Some(c) = d.recall(|_| true) {
        // It waits behind something of ours, and would be made when that is done.
        return d.link().reply(tid, c.seq, unmade_result(c.packed.nr), &[]);
    }
    break_current(t, &d, code);
}

/// The same for the call that it is in; one that waits behind it stays.
fn break_current(t: &mut Tree, d: &Deputy, code: &Code) {
    let tid = d.tid;
    // Bounded: each round either ends the call or finds it between two instructions.
    for _ in 0..100 {
        if !d.in_call() {
            return;
        }
        if d.turn_back(unmade_result) {
            return;
        }
        if trace::interrupt(tid).is_err() {
            return;
        }
        match trace::wait_for(tid, STOP_MAX) {
            Ok(Status::Stopped(thread, Stop::Trap)) => {
                let forced = force_result(&t.keep, tid, code, true).unwrap_or(false);
                let _ = trace::resume(thread, 0);
                if forced {
                    return;
                }
                std::thread::sleep(Duration::from_micros(20));
            }
            Ok(s) => World::report(t, tid, s),
            Err(_) => return,
        }
    }
}

/// Stops one deputy; its call, if any, is turned back.
pub fn stop_one(t: &mut Tree, tid: Tid, code: &Code) -> Option<Stopped> {
    trace::interrupt(tid).ok()?;
    loop {
        match trace::wait_for(tid, STOP_MAX).ok()? {
            Status::Stopped(thread, Stop::Trap) => {
                let _ = force_result(&t.keep, tid, code, true);
                return Some(thread);
            }
            s @ Status::Stopped(..) => World::report(t, tid, s),
            s => {
                World::report(t, tid, s);
                return None;
            }
        }
    }
}

/// The body has a signal for a thread whose call is still on its way to its deputy, or in it.
pub fn nudge_call(t: &mut Tree, tid: Tid, seq: u32) {
    t.keep.held_opens.nudge(tid, seq);
    t.keep.held_output.nudge(tid, seq);
    let Some(d) = t.keep.deputy(tid) else {
        return;
    };
    if let Some(c) = d.recall(|c| c.seq == seq) {
        return d.link().reply(tid, seq, unmade_result(c.packed.nr), &[]);
    }
    if !d.at_call(seq) {
        return;
    }
    if let Some(code) = t.code_of(d.pid) {
        // Its thread may have gone on, with a call that waits behind this one.
        break_current(t, &d, &code);
    }
}
