//! A process comes home: every thread gets its own state back, and stays stopped.
//!
//! From: `home.rs`, `group.rs`. Next: `home.rs`, whose flip lets them run.

use crate::deputy::Deputy;
use crate::restart::{FutexWaits, RestartedCalls, WaitDeadlines, write_time_left};
use crate::signals::{drain_timers, may_ask_overruns, requeue_signals, restore_timers};
use crate::state::{Process, Tree, signal_number};
use armento_migrate::image::restarts;
use armento_migrate::image::{
    self, State, ThreadState, flags, futex_wait, itimers, membarrier, mm, names, sigs, thread,
};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomeTid, Pid, Stay, Tid};
use armento_tracee::call::{Call, bit};
use armento_tracee::inject::{self, Hold, NEVER_BLOCK, Unfiltered};
use armento_tracee::region::{Code, SCRATCH_AREAS};
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Regs, Stopped};
use armento_tracee::tracer_thread::World;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The state of a process that came home, and when it was frozen.
pub struct Fetched {
    pub state: State,
    /// Calls that empty pages which the body has none of.
    pub stale: Vec<Call>,
    /// Calls that protect its shared memory again.
    pub close: Vec<Call>,
    /// Calls that lock its memory again.
    pub lock: Vec<Call>,
    pub bytes: u64,
    pub frozen: Instant,
}

/// Gives every thread its own state back; they stay stopped.
pub fn restore_threads(t: &mut Tree, pid: Pid, got: &Fetched) -> Result<()> {
    let state = &got.state;
    let code = t.code_of(pid).ok_or(MigrateError::Ended)?;
    t.keep.cpu.came_home(pid, state);
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    if let Some(l) = p.link() {
        let node = l.node.clone();
        p.usage.used_at(&node, state.cpu.away);
    }
    let mut signals: Vec<(Option<Tid>, SigInfo)> = state
        .pending
        .iter()
        .filter_map(|(tid, s)| Some((tid.map(HomeTid::at_home), s.0.as_slice().try_into().ok()?)))
        .collect();
    let away = p.away_mut().ok_or(MigrateError::Ended)?;
    drain_timers(pid, &code, away.signals.held_mut())?;
    let waiting = signals.iter().chain(away.signals.held());
    if may_ask_overruns(&state.overruns, waiting) && away.stay_for_timer() {
        let why = "a timer's signal waits behind one whose overruns it may ask for";
        return Err(MigrateError::Stays(Stay::Busy, why.into()));
    }
    for (to, info) in away.signals.take_held(usize::MAX) {
        image::timers::hold(&mut signals, to, &info);
    }
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    h.batch(&code, &got.stale)?;
    h.batch_ok(&code, "mprotect", &got.close)?;
    flags::guard(&mut h, &code, &state.guards)?;
    names::give(&mut h, &code, &state.names)?;
    h.batch(&code, &membarrier::set_calls(state.membarrier))?;
    // A limit that was lowered since it was locked is no reason to stay away.
    h.batch(&code, &got.lock)?;
    h.batch(&code, &flags::zero_calls(&state.zeros))?;
    let r = h.batch(&code, &[mm::set_call(&code, &state.mm)])?;
    armento_tracee::inject::ok("set the memory map's numbers", pid, r[0])?;
    let now = sigs::read(&mut h, &code)?;
    sigs::set(&mut h, &code, &state.actions, Some(&now))?;
    h.batch_ok(
        &code,
        "setitimer",
        &itimers::set_calls(&code, &state.itimers),
    )?;
    drop(h);
    restore_timers(pid, &code, &mut signals, &state.overruns)?;
    let deputies: Vec<Arc<Deputy>> = away.deputies().values().cloned().collect();
    let (mut all, mut over, mut faults) = (Vec::new(), Vec::new(), HashMap::new());
    for d in &deputies {
        let Some(s) = state.threads.iter().find(|s| s.tid.at_home() == d.tid) else {
            over.push(d.tid);
            continue;
        };
        let mut mine: Vec<_> = signals
            .iter()
            .filter(|(to, _)| to.unwrap_or(pid) == d.tid)
            .collect();
        // A fault in the midst of calls of ours would be theirs: it is delivered when the thread goes on.
        let fault = |(_, i): &&_| bit(signal_number(i)) & NEVER_BLOCK != 0;
        if let Some(at) = mine.iter().position(fault) {
            let (to, info) = mine.remove(at);
            if to.is_none() && s.mask & bit(signal_number(info)) != 0 {
                // It waits for the process: see `flip`.
                away.signals.held_mut().push((None, *info));
                all.push((&**d, s, mine));
                continue;
            }
            faults.insert(d.tid, (signal_number(info), *info));
        }
        all.push((&**d, s, mine));
    }
    let ignores = inject::ignores_trap(pid);
    let mut blocks = Vec::new();
    for part in all.chunks(SCRATCH_AREAS) {
        let notes = (
            &mut blocks,
            &mut t.wait_deadlines,
            &mut t.futex_waits,
            &t.cpu_fixup.restarted,
        );
        restore_some(&code, part, ignores, notes)?;
    }
    let mut ended = Vec::new();
    if let Some(away) = t.procs.get_mut(&pid).and_then(Process::away_mut) {
        ended.extend(away.halted.extract_if(.., |h| over.contains(&h.tid())));
        for h in &mut away.halted {
            h.signal = faults.remove(&h.tid());
        }
    }
    for h in ended {
        let tid = h.tid();
        if let Some(end) = end_thread(h.thread, &code) {
            World::report(t, tid, end);
        }
    }
    t.restart_blocks.extend(blocks);
    Ok(())
}

/// They stay deputies: what the program's threads registered with the kernel is taken back.
pub fn forget_registrations(t: &mut Tree, pid: Pid, state: &State) {
    let Some(code) = t.code_of(pid) else { return };
    for s in &state.threads {
        if let Ok(mut h) = Hold::take(s.tid.at_home(), Arc::new(Unfiltered)) {
            let scratch_area = code.scratch_area(0);
            let _ = h.batch(&scratch_area, &thread::forget_calls(&scratch_area, s));
        }
    }
}

/// A deputy, what its thread was away, and the signals that waited for it there.
type Dressed<'a> = (&'a Deputy, &'a ThreadState, Vec<&'a (Option<Tid>, SigInfo)>);

/// Each step is begun in all of them before the first is waited for. Names live at home: by writing to a file of /proc,
/// any process may have changed one there.
fn restore_some(
    code: &Code,
    all: &[Dressed],
    ignores: bool,
    (blocks, waits, futex_waits, restarted): (
        &mut Vec<(Tid, i64)>,
        &mut WaitDeadlines,
        &mut FutexWaits,
        &RestartedCalls,
    ),
) -> Result<()> {
    let mut held = Vec::with_capacity(all.len());
    for (n, (d, s, _)) in all.iter().enumerate() {
        let mut h = Hold::take_known(d.tid, Arc::new(Unfiltered), ignores)?;
        let scratch_area = code.scratch_area(n);
        h.begin(&scratch_area, &thread::set_calls(&scratch_area, s))?;
        held.push(h);
    }
    for (n, h) in held.iter_mut().enumerate() {
        h.end_ok(&code.scratch_area(n), "restore thread")?;
    }
    let mut sleepers = Vec::new();
    for (n, (h, (d, s, signals))) in held.iter_mut().zip(all).enumerate() {
        if !signals.is_empty() {
            requeue_signals(h, code, d.pid, signals)?;
        }
        trace::set_xstate(d.tid, &s.xstate)?;
        let mut regs = thread::from_words(&s.regs)
            .ok_or_else(|| MigrateError::Stays(Stay::TargetFailed, "bad registers".into()))?;
        if (regs.rax as i64 == restarts::ERESTART_RESTARTBLOCK || s.at_deputy)
            && let Some((nr, deadline)) = d.block()
        {
            let again = asleep(h.tid, &code.scratch_area(n), &regs, i64::from(nr), deadline);
            sleepers.push((n, again));
            blocks.push((d.tid, i64::from(nr)));
        } else if let Some(until) = s.until.filter(|_| futex_wait::begins(&regs)) {
            let now =
                armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?;
            let deadline = Instant::now() + futex_wait::left(until, now);
            let nr = libc::SYS_futex;
            let again = asleep(h.tid, &code.scratch_area(n), &regs, nr, Some(deadline));
            sleepers.push((n, again));
            blocks.push((d.tid, nr));
            futex_waits.insert(d.tid, until);
        } else if s.again {
            waits.home(d.tid, &mut regs, d.deadline());
            write_time_left(d.tid, &regs, d.deadline());
        }
        if s.written > 0 {
            restarted.came((d.pid, d.tid), &mut regs, s.written);
        }
        h.regs = regs;
    }
    rearm_sleeps(&mut held, &sleepers)?;
    for (h, (_, s, _)) in held.into_iter().zip(all) {
        let regs = h.regs;
        h.finish(regs, s.mask)?;
    }
    Ok(())
}

/// Place in the scratch area: how long a sleep still lasts.
const LEFT: u64 = 64;

/// The thread's sleep was begun by us, with our buffers: registers that begin it as the program's own, with the time
/// that is left.
fn asleep(tid: Tid, scratch_area: &Code, regs: &Regs, nr: i64, deadline: Option<Instant>) -> Regs {
    let left = deadline.map_or(Duration::ZERO, |d| {
        d.saturating_duration_since(Instant::now())
    });
    let at = scratch_area.scratch(LEFT, &futex_wait::spec(left));
    let mut r = *regs;
    match nr {
        libc::SYS_nanosleep => r.rdi = at,
        libc::SYS_clock_nanosleep => r.rdx = at,
        libc::SYS_futex => r.r10 = at,
        libc::SYS_poll if deadline.is_some() => r.rdx = left.as_millis() as u64 + 1,
        _ => {}
    }
    // The program stands behind its syscall instruction, or (turned back already) before it.
    if !futex_wait::begins(regs) && !restarts::turned_back(tid, regs) {
        r.rip -= 2;
    }
    r.rax = nr as u64;
    r.orig_rax = u64::MAX;
    r
}

/// Begins those sleeps, and interrupts them at once: the kernel's restart blocks are then as they would be. By place
/// among the held.
fn rearm_sleeps(held: &mut [Hold], sleepers: &[(usize, Regs)]) -> Result<()> {
    let to_call = |thread| trace::resume_to_call(thread, 0);
    let on = |thread: Stopped| {
        trace::interrupt(thread.tid())?;
        trace::resume(thread, 0)
    };
    for (n, r) in sleepers {
        trace::set_regs(held[*n].tid, r)?;
        held[*n].go(to_call)?;
    }
    for (n, _) in sleepers {
        held[*n].await_stop(to_call)?;
    }
    for (n, _) in sleepers {
        held[*n].go(on)?;
    }
    for (n, r) in sleepers {
        let h = &mut held[*n];
        h.await_stop(on)?;
        let after = trace::regs(h.tid)?;
        h.regs.rax = after.rax;
        h.regs.rip = r.rip + 2;
        h.regs.orig_rax = match restarts::interrupted(&after) {
            true => r.rax,
            false => u64::MAX,
        };
    }
    Ok(())
}

/// A thread that ended away while its end was on the way home: it ends here, before our page is gone.
fn end_thread(thread: Stopped, code: &Code) -> Option<trace::Status> {
    let tid = thread.tid();
    let h = Hold::take(tid, Arc::new(Unfiltered)).ok()?;
    let mut r = h.regs;
    r.rip = code.gate;
    r.rax = libc::SYS_exit as u64;
    r.rdi = 0;
    r.orig_rax = u64::MAX;
    h.finish(r, 0).ok()?;
    trace::resume(thread, 0).ok()?;
    trace::wait_for(tid, RETIRE_MAX).ok()
}

/// An exiting thread needs microseconds.
const RETIRE_MAX: Duration = Duration::from_secs(2);
