//! A process that its user holds at home: the keeper does not touch it, so that a debugger can.
//!
//! From: `keeper/src/moves/run.rs`. Next: `resume.rs` (it is let go even where its CPU time is corrected).

use super::resume::{call_fixups, resume_process};
use crate::sharing::sharers_of;
use crate::state::{Keep, Process, StayReason, Tree};
use armento_migrate::stop_threads::StoppedThreads;
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::trace;

const HOLD: &str = "`armento hold`";
const PUT: &str = "it was put here by hand";

/// Holds it, and the processes that move with it, at home and brings it there by `come`.
pub fn hold_for_user<T>(keep: &Keep, pid: Pid, come: impl FnOnce() -> Result<T>) -> Result<T> {
    let all = sharers_of(pid);
    set(keep, &all, true);
    let done = come().and_then(|done| {
        let loosen = move |t: &mut Tree| {
            all.into_iter().try_for_each(|p| {
                t.note(p, Some(StayReason::new(Stay::Locked, HOLD)));
                loosen(t, p)
            })
        };
        keep.tracer
            .run(loosen)
            .unwrap_or(Err(MigrateError::Ended))?;
        Ok(done)
    });
    if done.is_err() {
        release_hold(keep, pid);
    }
    done
}

pub fn release_hold(keep: &Keep, pid: Pid) {
    set(keep, &sharers_of(pid), false);
}

/// The user placed it where it is, with the processes that share memory with it.
pub fn mark_placed(keep: &Keep, pid: Pid) {
    to_all(keep, &sharers_of(pid), |p| p.pins.place_by_hand());
}

fn set(keep: &Keep, all: &[Pid], tied: bool) {
    to_all(keep, all, move |p| p.pins.hold_for_debugger(tied));
}

fn to_all(keep: &Keep, all: &[Pid], so: impl Fn(&mut Process) + Send + 'static) {
    let all = all.to_vec();
    keep.tracer.run(move |t| {
        for pid in all {
            if let Some(p) = t.procs.get_mut(&pid) {
                so(p);
            }
        }
    });
}

/// Neither a storm nor `--on` moves a process that is held, or was placed by the user.
pub fn refuses_move(keep: &Keep, pid: Pid, storm: bool) -> Result<()> {
    let why = move |t: &mut Tree| match t.procs.get(&pid)? {
        p if p.pins.for_debugger() => Some(HOLD),
        p if storm && p.pins.by_hand() => Some(PUT),
        _ => None,
    };
    match keep.tracer.run(why).flatten() {
        Some(why) => Err(MigrateError::Stays(Stay::Locked, why.into())),
        None => Ok(()),
    }
}

/// Lets go of a process at home whose calls are watched, or whose execs are followed.
fn loosen(t: &mut Tree, pid: Pid) -> Result<()> {
    if !t.cpu_fixup.has(pid) && !t.follow.on {
        return Ok(());
    }
    t.follow.forget(pid);
    let mut stopped = StoppedThreads::new(pid);
    stopped.calls = Some(call_fixups(t, pid));
    let halted = stopped.halt(trace::WATCH);
    for h in &stopped.halted {
        t.remember_restart_block(h.tid());
    }
    resume_process(t, pid, stopped);
    halted
}
