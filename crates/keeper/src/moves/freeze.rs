//! A process that leaves stands still: everything of it but its memory is read.
//!
//! From: `out.rs`, `group_out.rs`. Next: `migrate/src/source/mod.rs`.

use super::eligibility;
use super::prepare::{Company, survey};
use crate::deputy::map_region;
use crate::lifecycle::find_children;
use crate::observers::not_observed;
use crate::restart::{WaitDeadlines, timed_sleepers};
use crate::sharing::shared_only_with;
use crate::signals::read_overruns;
use crate::state::{Keep, Leaving, Tree};
use armento_migrate::failpoint::point;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::timers::Overruns;
use armento_migrate::image::{
    State, ThreadState, files, itimers, membarrier, mm, sigs, thread, uncarried,
};
use armento_migrate::phase::Failpoint;
use armento_migrate::stop_threads::{Halted, delicate};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, Pid, Stay};
use armento_tracee::inject::{self, Hold, Unfiltered};
use armento_tracee::region::{Code, SCRATCH_AREAS};
use armento_tracee::timers::sleeps_by_cpu_time;
use armento_tracee::{cpu, maps, status, sys, trace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// How a process leaves.
#[derive(Clone, Copy)]
pub struct Leaves {
    pub company: Company,
    /// Its target has another vDSO: no thread of it may be inside of ours.
    pub foreign: bool,
}

/// Halts it for good and reads everything but memory. `others`: what of shared memory is sent already.
pub fn freeze(t: &mut Tree, pid: Pid, how: Leaves, others: &Views) -> Result<(Survey, State)> {
    halt(t, pid)?;
    // It forks no more: children that it had a moment ago are its own, not its deputy's.
    find_children(t, pid);
    point(Failpoint::HomeHalted);
    prepare_injection(t, pid)?;
    let mut seen = read_mappings(t, pid, how)?;
    let code = leaving(&mut t.leaving, pid)?.region.code();
    read_shared_memory(pid, &code, others, &mut seen.survey)?;
    if seen.anew && seen.survey.files.keys().any(files::rescued) {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        files::look_below(&mut hold, &code, &seen.survey.areas, &seen.survey.files)?;
    }
    not_observed(&t.keep, pid)?;
    point(Failpoint::HomeSurveyed);
    let (threads, process) = read_threads(t, pid, how, &seen)?;
    point(Failpoint::HomeRead);
    let state = whole_state(t, pid, threads, process)?;
    Ok((seen.survey, state))
}

fn leaving(all: &mut BTreeMap<Pid, Leaving>, pid: Pid) -> Result<&mut Leaving> {
    all.get_mut(&pid)
        .ok_or_else(|| MigrateError::Stays(Stay::Busy, "it exec'd meanwhile".into()))
}

/// Halts all threads, those that are in a call first. If it did not run on since it was prepared, all are halted
/// already.
fn halt(t: &mut Tree, pid: Pid) -> Result<()> {
    let l = leaving(&mut t.leaving, pid)?;
    let sleepers = delicate(pid)?;
    cpu::look_ahead(l.stopped.seized.iter().copied());
    point(Failpoint::HomeLooked);
    let ran = l.stopped.halted.is_empty();
    let asleep = if ran {
        timed_sleepers(&sleepers)
    } else {
        Vec::new()
    };
    l.stopped.halt_first(&sleepers)?;
    point(Failpoint::HomeHalting);
    l.stopped.halt(trace::WATCH)?;
    if ran {
        l.stands = Instant::now();
        asleep.iter().for_each(|a| t.wait_deadlines.woken(a));
        t.futex_waits.stopped(&asleep, &l.stopped.halted);
    }
    t.cpu_fixup
        .restarted
        .ensure_input_complete(pid, &l.stopped.halted)?;
    uncarried::of_threads(l.stopped.halted.iter().map(Halted::tid))
}

/// Makes injected calls possible: should the keeper be killed from now on, the process ends; and the region is mapped.
fn prepare_injection(t: &mut Tree, pid: Pid) -> Result<()> {
    let l = leaving(&mut t.leaving, pid)?;
    t.passing.extend(l.stopped.seized.iter().copied());
    for h in &l.stopped.halted {
        trace::set_options(h.tid(), trace::FOLLOW | trace::EXITKILL)?;
    }
    if !l.mapped {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        l.region = map_region(&mut hold, l.stopped.seized.len())?;
        l.mapped = true;
    }
    Ok(())
}

/// Mappings and files of a halted process.
struct Seen {
    survey: Survey,
    /// Read now. Otherwise it stands at its exec since it was prepared, and has nothing new.
    anew: bool,
}

fn read_mappings(t: &mut Tree, pid: Pid, how: Leaves) -> Result<Seen> {
    let l = leaving(&mut t.leaving, pid)?;
    if let Some(survey) = l.still.take() {
        return Ok(Seen {
            survey,
            anew: false,
        });
    }
    let survey = survey(&t.keep, pid, Some(&l.names), how.company.aim())?;
    if how.company == Company::Alone {
        shared_only_with(&[pid], &survey.areas)?;
    }
    guarded(&t.keep, pid)?;
    eligibility::still_may_leave(pid)?;
    Ok(Seen { survey, anew: true })
}

/// Which pages of shared memory are filled, but for those that were sent with `others`.
fn read_shared_memory(pid: Pid, code: &Code, others: &Views, last: &mut Survey) -> Result<()> {
    if objects::shared(&last.areas).next().is_none() {
        return Ok(());
    }
    let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
    let known = objects::resident(&mut hold, code, &last.areas)?;
    drop(hold);
    last.objects = objects::filled(pid, &last.areas, others, &known)?;
    Ok(())
}

/// State of the process as a whole that injected calls of its leader read.
#[derive(Default)]
struct OfProcess {
    actions: Vec<sigs::Action>,
    overruns: Overruns,
    membarrier: u32,
}

/// Reads all threads, as many at a time as there are scratch areas.
fn read_threads(
    t: &mut Tree,
    pid: Pid,
    how: Leaves,
    seen: &Seen,
) -> Result<(Vec<ThreadState>, OfProcess)> {
    let ignores = inject::ignores_trap(pid);
    let l = leaving(&mut t.leaving, pid)?;
    let code = l.region.code();
    let halted = l.stopped.halted.iter();
    let halted: Vec<_> = halted.map(|h| (h.tid(), h.signal.is_some())).collect();
    let (mut threads, mut process) = (Vec::new(), OfProcess::default());
    for part in halted.chunks(SCRATCH_AREAS) {
        let l = leaving(&mut t.leaving, pid)?;
        let mut held = Vec::with_capacity(part.len());
        for (n, &(tid, signalled)) in part.iter().enumerate() {
            let waits = signalled || thread::own_eintr(tid);
            let mut hold = Hold::take_known(tid, Arc::new(Unfiltered), ignores)?;
            if let Some(vdso) = l.numbers.vdso.filter(|_| how.foreign) {
                vdso.leave(&mut hold)?;
            }
            if tid == pid {
                process = read_process(&mut hold, &code, l, seen)?;
            }
            thread::ask(&mut hold, &code.scratch_area(n), thread::At::Home)?;
            held.push((hold, waits));
        }
        for (n, (mut hold, waits)) in held.into_iter().enumerate() {
            let tid = hold.tid;
            let scratch_area = code.scratch_area(n);
            let mut s = thread::read(&mut hold, &scratch_area, HomeTid::of_home(tid), waits)?;
            add_known(t, pid, &mut s)?;
            threads.push(s);
        }
    }
    Ok((threads, process))
}

/// `hold`: of the leader.
fn read_process(hold: &mut Hold, code: &Code, l: &mut Leaving, seen: &Seen) -> Result<OfProcess> {
    let overruns = read_overruns(hold, code, hold.tid)?;
    let actions = sigs::read(hold, code)?;
    l.itimers = itimers::read(hold, code)?;
    mm::read_brk(hold, code, &mut l.numbers)?;
    let membarrier = membarrier::read(hold, code)?;
    if seen.anew {
        uncarried::of_process(hold, code, &seen.survey.areas)?;
    }
    Ok(OfProcess {
        actions,
        overruns,
        membarrier,
    })
}

/// Adds what the keeper knows of the call that a thread is in, and of its CPU time.
fn add_known(t: &mut Tree, pid: Pid, s: &mut ThreadState) -> Result<()> {
    let tid = s.tid.at_home();
    s.cpu = t.keep.cpu.thread_leaves(pid, tid);
    restarted(s, t.restart_blocks.get(&tid).copied())?;
    wait_on(s, &t.wait_deadlines);
    s.until = t.futex_waits.leaves(s);
    if let Some(nr) = t.cpu_fixup.restarted.slept(tid) {
        s.again = true;
        s.slept_in(nr);
    }
    if let Some(rest) = t.cpu_fixup.restarted.rest(tid) {
        rest.travels(s);
    }
    Ok(())
}

/// Puts the state together. Home keeps of it what its deputies need.
fn whole_state(
    t: &mut Tree,
    pid: Pid,
    threads: Vec<ThreadState>,
    process: OfProcess,
) -> Result<State> {
    let l = leaving(&mut t.leaving, pid)?;
    let OfProcess {
        actions,
        overruns,
        membarrier,
    } = process;
    l.ignored = actions
        .iter()
        .enumerate()
        .filter(|(_, a)| a[0] == 1)
        .map(|(i, _)| 1 << i)
        .sum();
    l.signalfds = eligibility::signalfd_mask(pid);
    l.states.clone_from(&threads);
    l.limits = sys::limits(pid);
    Ok(State {
        zeros: Vec::new(),
        threads,
        actions,
        mm: l.numbers.clone(),
        overruns,
        itimers: l.itimers,
        signalfds: l.signalfds,
        limits: l.limits.clone(),
        persona: status::personality(pid),
        membarrier,
        names: Vec::new(),
        guards: Vec::new(),
        pending: Vec::new(),
        cpu: t.keep.cpu.leaves(pid),
        vdso: Vec::new(),
    })
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
