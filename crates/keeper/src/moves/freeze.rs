//! A process that leaves stands still: everything of it but its memory is read.
//!
//! From: `out.rs`, `group.rs`. Next: `migrate/src/source.rs`.

use super::eligibility;
use super::prepare::survey;
use crate::deputy::map_region;
use crate::observers::not_observed;
use crate::restart::{WaitDeadlines, timed_sleepers};
use crate::sharing::shared_only_with;
use crate::signals::read_overruns;
use crate::state::{Keep, Tree};
use armento_migrate::failpoint::point;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::{
    State, ThreadState, files, itimers, membarrier, mm, sigs, thread, uncarried,
};
use armento_migrate::stop_threads::{Halted, delicate};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, Pid, Stay};
use armento_tracee::inject::{self, Hold, Unfiltered};
use armento_tracee::region::SCRATCH_AREAS;
use armento_tracee::timers::sleeps_by_cpu_time;
use armento_tracee::{cpu, maps, status, sys, trace};
use std::sync::Arc;
use std::time::Instant;

/// How a process leaves.
#[derive(Clone, Copy)]
pub struct Leaves {
    /// Those that share its memory stand still, too.
    pub joint: bool,
    /// Its target has another vDSO: no thread of it may be inside of ours.
    pub foreign: bool,
}

/// Halts it for good and reads everything but memory. `others`: what of shared memory is sent already.
pub fn freeze(t: &mut Tree, pid: Pid, how: Leaves, others: &Views) -> Result<(Survey, State)> {
    let blocks = t.restart_blocks.clone();
    let l = t
        .leaving
        .get_mut(&pid)
        .ok_or_else(|| MigrateError::Stays(Stay::Busy, "it exec'd meanwhile".into()))?;
    let sleepers = delicate(pid)?;
    cpu::look_ahead(l.stopped.seized.iter().copied());
    point("home.looked");
    let ran = l.stopped.halted.is_empty();
    let asleep = if ran {
        timed_sleepers(&sleepers)
    } else {
        Vec::new()
    };
    l.stopped.halt_first(&sleepers)?;
    point("home.halting");
    l.stopped.halt(trace::WATCH)?;
    if ran {
        l.stands = Instant::now();
        asleep.iter().for_each(|a| t.wait_deadlines.woken(a));
        t.futex_waits.stopped(&asleep, &l.stopped.halted);
    }
    t.cpu_fixup
        .restarted
        .ensure_input_complete(pid, &l.stopped.halted)?;
    uncarried::of_threads(l.stopped.halted.iter().map(Halted::tid))?;
    point("home.halted");
    t.passing.extend(l.stopped.seized.iter().copied());
    for h in &l.stopped.halted {
        trace::set_options(h.tid(), trace::FOLLOW | trace::EXITKILL)?;
    }
    if !l.mapped {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        l.region = map_region(&mut hold, l.stopped.seized.len())?;
        l.mapped = true;
    }
    let code = l.region.code();
    let still = l.still.take();
    let again = still.is_none();
    let mut last = still.map_or_else(|| survey(&t.keep, pid, Some(&l.names)), Ok)?;
    if again {
        // One that stands at its exec since it was looked at has nothing new.
        if !how.joint {
            shared_only_with(&[pid], &last.areas)?;
        }
        guarded(&t.keep, pid)?;
        eligibility::still_may_leave(pid)?;
    }
    if objects::shared(&last.areas).next().is_some() {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        let known = objects::resident(&mut hold, &code, &last.areas)?;
        drop(hold);
        last.objects = objects::filled(pid, &last.areas, others, &known)?;
    }
    if again && last.files.keys().any(files::rescued) {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        files::look_below(&mut hold, &code, &last.areas, &last.files)?;
    }
    not_observed(&t.keep, pid)?;
    point("home.surveyed");
    let ignores = inject::ignores_trap(pid);
    let mut threads = Vec::new();
    let (mut actions, mut overruns, mut registered) = (Vec::new(), Vec::new(), 0);
    for part in l.stopped.halted.chunks(SCRATCH_AREAS) {
        let mut held = Vec::with_capacity(part.len());
        for (n, h) in part.iter().enumerate() {
            let tid = h.tid();
            let waits = h.signal.is_some() || thread::own_eintr(tid);
            let mut hold = Hold::take_known(tid, Arc::new(Unfiltered), ignores)?;
            if let Some(vdso) = l.numbers.vdso.filter(|_| how.foreign) {
                vdso.leave(&mut hold)?;
            }
            if tid == pid {
                overruns = read_overruns(&mut hold, &code, pid)?;
                actions = sigs::read(&mut hold, &code)?;
                l.itimers = itimers::read(&mut hold, &code)?;
                mm::read_brk(&mut hold, &code, &mut l.numbers)?;
                registered = membarrier::read(&mut hold, &code)?;
                if again {
                    uncarried::of_process(&mut hold, &code, &last.areas)?;
                }
            }
            thread::ask(&mut hold, &code.scratch_area(n), thread::At::Home)?;
            held.push((hold, waits));
        }
        for (n, (mut hold, waits)) in held.into_iter().enumerate() {
            let tid = hold.tid;
            let mut s = thread::read(
                &mut hold,
                &code.scratch_area(n),
                HomeTid::of_home(tid),
                waits,
            )?;
            s.cpu = t.keep.cpu.thread_leaves(pid, tid);
            restarted(&mut s, blocks.get(&tid).copied())?;
            wait_on(&mut s, &t.wait_deadlines);
            s.until = t.futex_waits.leaves(&s);
            if let Some(nr) = t.cpu_fixup.restarted.slept(tid) {
                s.again = true;
                s.slept_in(nr);
            }
            if let Some(rest) = t.cpu_fixup.restarted.rest(tid) {
                rest.travels(&mut s);
            }
            threads.push(s);
        }
    }
    point("home.read");
    l.ignored = actions
        .iter()
        .enumerate()
        .filter(|(_, a)| a[0] == 1)
        .map(|(i, _)| 1 << i)
        .sum();
    l.signalfds = eligibility::signalfd_mask(pid);
    l.states.clone_from(&threads);
    l.limits = sys::limits(pid);
    let state = State {
        zeros: Vec::new(),
        threads,
        actions,
        mm: l.numbers.clone(),
        overruns,
        itimers: l.itimers,
        signalfds: l.signalfds,
        limits: l.limits.clone(),
        persona: status::personality(pid),
        membarrier: registered,
        names: Vec::new(),
        guards: Vec::new(),
        pending: Vec::new(),
        cpu: t.keep.cpu.leaves(pid),
        vdso: Vec::new(),
    };
    Ok((last, state))
}

/// What others can find is not to be left behind as it is.
fn guarded(keep: &Keep, pid: Pid) -> Result<()> {
    let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    let mut persistent = list
        .iter()
        .filter_map(|v| Some((v, objects::persistent(v)?.0)));
    match persistent.find(|(_, o)| !keep.shm_guards.has(o)) {
        Some((v, _)) => {
            let why = format!("{} was mapped just now", v.name);
            Err(MigrateError::Stays(Stay::Busy, why))
        }
        None => Ok(()),
    }
}

/// Which call the thread's restart block belongs to; `known`: what it was doing when we let it go last.
pub fn restarting(s: &ThreadState, known: Option<i64>) -> Option<i64> {
    match s.number() {
        libc::SYS_restart_syscall | -1 => known,
        nr => Some(nr),
    }
}

/// A call that was restarted before has lost its number; what it was decides where it goes on.
fn restarted(s: &mut ThreadState, known: Option<i64>) -> Result<()> {
    if !s.at_deputy {
        return Ok(());
    }
    if by_cpu_time(s) {
        // It fell asleep between our look and its stop.
        let why = "it sleeps on a clock of CPU time".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    match restarting(s, known) {
        Some(libc::SYS_futex) => {
            s.begin_anew(libc::SYS_futex);
            Ok(())
        }
        Some(_) => Ok(()),
        None => Err(MigrateError::Stays(
            Stay::Busy,
            "it is in a restarted call that we do not know".into(),
        )),
    }
}

fn by_cpu_time(s: &ThreadState) -> bool {
    let first = thread::from_words(&s.regs).map_or(0, |r| r.rdi);
    sleeps_by_cpu_time(s.number(), &[first, 0, 0, 0, 0, 0])
}

/// A call that is issued again waits for what is left of its time, where we know.
fn wait_on(s: &mut ThreadState, waits: &WaitDeadlines) {
    let regs = thread::from_words(&s.regs).filter(|_| s.again);
    if let Some(mut regs) = regs
        && waits.leaves(s.tid.at_home(), &mut regs)
    {
        s.regs = thread::words(&regs);
    }
}
