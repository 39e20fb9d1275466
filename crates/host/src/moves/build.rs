//! Builds the body of an arriving process: an empty one of the offered shape, its mappings, then all that the kernel
//! remembers.
//!
//! From: `arrive.rs`, in the tracer thread, in the phases offer, dirty and state. Next: `build_threads.rs`.

use super::build_threads::{make_threads, restore_threads, retire_others};
use super::map_areas::{make_objects, map_all};
use super::postcopy;
use crate::inject::{map_vdso, new_body};
use crate::state::{Body, GuestTable, GuestThread, Process, TracedThread};
use crate::sync::lock;
use crate::{sys, threads};
use armento_migrate::failpoint::point;
use armento_migrate::image::Area;
use armento_migrate::image::files::rescued;
use armento_migrate::image::files_of;
use armento_migrate::image::{
    Head, Layout, State, flags, itimers, membarrier, mm, names, objects, sigs, thread,
};
use armento_migrate::pages::{Filler, StandIns};
use armento_migrate::phase::Failpoint;
use armento_migrate::postcopy::Fetch;
use armento_migrate::target::{drop_calls, relayout};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomePid, HomeTid, MoveId, Pid, Stay};
use armento_tracee::inject::{Hold, ok};
use armento_tracee::pages::{self, Backing, Run};
use armento_tracee::region::Code;
use armento_tracee::sys as tsys;
use armento_tracee::uffd::{USER_MODE_ONLY, Uffd};
use armento_wire::talk::{FileKey, Signal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The body that the move `mv` builds, and that has not run. A move that was held up by the network may go on when another
/// move of the process has begun its own.
pub fn unthawed(guests: &mut GuestTable, mv: MoveId, pid: HomePid) -> Result<&mut Body> {
    let its = |b: &&mut Body| b.quiet && b.mv == Some(mv);
    let b = guests.bodies.get_mut(&pid).filter(its);
    b.ok_or(MigrateError::Ended)
}

/// Offer: an empty body of the offered shape.
pub fn begin(guests: &mut GuestTable, mv: MoveId, head: &Head) -> Result<Filler> {
    make_room(guests, mv, head.pid)?;
    forget_rescued(guests, &head.areas);
    let here = new_process(guests, mv, head)?;
    prepare_process(guests, here, head)?;
    make_objects(&guests.shared, &head.areas, &head.brings, &head.persistent)?;
    shape(guests, head.pid, head.areas.clone())?;
    // While the process still runs. What cannot be made now is made, or fails, at the end.
    let _ = make_threads(guests, head.pid, head.tids.iter().copied());
    let uffd = begin_filling(guests, head.pid);
    let filling = guests.bodies.get(&head.pid).map(|b| b.filling.clone());
    Ok(Filler::new(here, uffd, StandIns::default()).filling(filling.unwrap_or_default()))
}

/// Removes what an earlier move has left of the process. Fails if this move was given up, or is not the latest.
fn make_room(guests: &mut GuestTable, mv: MoveId, pid: HomePid) -> Result<()> {
    if guests.shared.outgoing.aborted(mv) {
        return Err(MigrateError::Ended);
    }
    let Some(old) = guests.bodies.get(&pid) else {
        return Ok(());
    };
    if old.mv >= Some(mv) {
        // Without encryption a connection can be repeated, or held up. That body is not of this move.
        let why = "this move is under way already, or over".into();
        return Err(MigrateError::Stays(Stay::TargetFailed, why));
    }
    if !old.quiet {
        return Err(MigrateError::Stays(
            Stay::TargetFailed,
            "it is here already".into(),
        ));
    }
    threads::remove_body(guests, pid);
    Ok(())
}

/// An empty process with one thread, in the guest table. Returns its pid here.
fn new_process(guests: &mut GuestTable, mv: MoveId, head: &Head) -> Result<Pid> {
    let stopped = new_body(&guests.zygote, &guests.code, &guests.allowlist(), head.pid)?;
    let here = stopped.tid();
    let thread = GuestThread::new(head.pid, head.pid.leader(), here, Process::new(here));
    guests.shared.threads.insert(&thread);
    let mut body = Body::new(head.pid, TracedThread::stopped(thread, stopped));
    body.quiet = true;
    body.mv = Some(mv);
    body.name = head.command.clone();
    body.needs = head.processor.needs.clone();
    guests.bodies.insert(head.pid, body);
    Ok(here)
}

/// Gives it the vDSO of its home, its name, and a userfaultfd if the kernel allows that.
fn prepare_process(guests: &mut GuestTable, here: Pid, head: &Head) -> Result<()> {
    let code = guests.code.clone();
    let mut h = Hold::take(here, guests.allowlist())?;
    let foreign = map_vdso(&mut h, &code, head.mm.vdso)?;
    let fd = h
        .call(
            &code,
            libc::SYS_userfaultfd,
            [libc::O_CLOEXEC as u64 | USER_MODE_ONLY, 0, 0, 0, 0, 0],
        )?
        .0;
    // Most of its threads have the name of the first.
    h.batch_ok(&code, "prctl", &[thread::name_call(&code, &head.command)])?;
    let uffd = if fd >= 0 {
        let u = tsys::steal_fd(here, fd as i32)
            .ok()
            .and_then(|f| Uffd::adopt(f).ok());
        h.call(&code, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
        u
    } else {
        None
    };
    drop(h);
    if let Some(b) = guests.bodies.get_mut(&head.pid) {
        b.uffd = uffd.map(Arc::new);
        b.vdso = foreign;
    }
    Ok(())
}

/// Copies made for one move go when no body maps them any more: each departure from home makes new ones.
fn forget_rescued(guests: &GuestTable, coming: &[Area]) {
    let here = guests.bodies.values().flat_map(|b| files_of(&b.areas));
    let used: Vec<FileKey> = here.chain(files_of(coming)).collect();
    let files = &guests.shared.files;
    files.forget(|k| !rescued(k) || used.contains(k));
}

/// Lets the pages of everything that is plain memory be made by userfaultfd. `None`: they are written.
fn begin_filling(guests: &mut GuestTable, pid: HomePid) -> Option<Arc<Uffd>> {
    let b = guests.bodies.get_mut(&pid)?;
    let uffd = b.uffd.clone()?;
    let plain = b.areas.iter().filter(|a| a.backing() == Backing::Memory);
    for run in plain.map(Area::run) {
        // What cannot be made so is written: see `Filler`.
        if uffd.begin_filling(run).is_ok() {
            b.filling.push(run);
        }
    }
    Some(uffd)
}

/// The pages are complete: an access to one that is not there gets a zero page, as ever.
fn end_filling(b: &mut Body) -> Result<()> {
    let plain = b.areas.iter().filter(|a| a.backing() == Backing::Memory);
    let runs: Vec<Run> = plain.map(Area::run).collect();
    let filling = pages::union(std::mem::take(&mut b.filling), &[]);
    let Some(uffd) = &b.uffd else { return Ok(()) };
    for run in pages::both(&pages::union(runs, &[]), &filling) {
        uffd.filled(run).local("watch its memory")?;
    }
    Ok(())
}

/// Brings the mappings of an unthawed body to `areas`.
fn shape(guests: &mut GuestTable, pid: HomePid, areas: Vec<Area>) -> Result<()> {
    let (shared, code, allowlist) = (
        guests.shared.clone(),
        guests.code.clone(),
        guests.allowlist(),
    );
    let Some(b) = guests.bodies.get_mut(&pid) else {
        return Err(MigrateError::Ended);
    };
    let mut h = Hold::take(b.here, allowlist)?;
    let mut map = |h: &mut Hold, all: &[Area]| map_all(&shared, h, &code, all);
    let open = |areas: &[Area]| objects::opened_up(areas, |_| true);
    let (old, new) = (open(&b.areas), open(&areas));
    relayout(&mut h, &code, &old, &new, &mut map)?;
    b.areas = areas;
    Ok(())
}

/// Dirty: the last layout.
pub fn lay_out(guests: &mut GuestTable, mv: MoveId, pid: HomePid, layout: Layout) -> Result<()> {
    unthawed(guests, mv, pid)?;
    make_objects(&guests.shared, &layout.areas, &[], &[])?;
    shape(guests, pid, layout.areas)?;
    give_up(guests, mv, pid, &layout.dropped)
}

/// Drops these pages.
pub fn give_up(guests: &mut GuestTable, mv: MoveId, pid: HomePid, runs: &[Run]) -> Result<()> {
    let (code, allowlist) = (guests.code.clone(), guests.allowlist());
    let b = unthawed(guests, mv, pid)?;
    let mut h = Hold::take(b.here, allowlist)?;
    h.batch_ok(&code, "drop pages", &drop_calls(runs))?;
    Ok(())
}

/// State: threads, dispositions, everything the kernel remembers. The body stays stopped. Returns what receives the
/// pages that are still to come.
pub fn finish(
    guests: &mut GuestTable,
    mv: MoveId,
    pid: HomePid,
    state: &State,
    later: &[Run],
) -> Result<Option<(Arc<Process>, Fetch)>> {
    let (code, shared) = (guests.code.clone(), guests.shared.clone());
    let b = unthawed(guests, mv, pid)?;
    // Before code of its own runs: the kernel, too, would wait for a page.
    end_filling(b)?;
    for (object, _) in objects::sizes(&b.areas) {
        if let Some(o) = lock(&shared.objects).get_mut(&object) {
            o.arrived()?;
        }
    }
    let here = b.here;
    set_limits(b, state);
    let mut h = Hold::take(here, guests.allowlist())?;
    let b = guests.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    set_memory(&mut h, &code, b, state)?;
    let rest = match later {
        [] => None,
        _ => Some((
            b.proc.clone(),
            postcopy::begin(&shared, &mut h, &code, b, later)?,
        )),
    };
    sigs::set(&mut h, &code, &state.actions, None)?;
    h.batch_ok(
        &code,
        "setitimer",
        &itimers::set_calls(&code, &state.itimers),
    )?;
    point(Failpoint::HostSet);
    let ignores = h.ignores_trap();
    drop(h);
    make_threads(guests, pid, state.threads.iter().map(|t| t.tid))?;
    retire_others(guests, pid, state)?;
    point(Failpoint::HostThreads);
    restore_threads(guests, pid, state, ignores)?;
    if let Some(b) = guests.bodies.get(&pid) {
        b.proc.signalfds.store(state.signalfds, Ordering::Relaxed);
        *lock(&b.proc.overruns) = state.overruns.iter().copied().collect();
    }
    requeue(guests, pid, &state.pending);
    Ok(rest)
}

/// CPU time that it brings, and the limits of its resources.
fn set_limits(b: &Body, state: &State) {
    lock(&b.proc.cpu).carried = state.cpu;
    for &(res, soft, hard) in &state.limits {
        sys::set_limit(b.here, res, soft, hard);
    }
    let timed = state.itimers != itimers::Itimers::default();
    b.proc.cpu_timer.store(timed, Ordering::Release);
}

/// What the kernel remembers of its memory.
fn set_memory(h: &mut Hold, code: &Code, b: &mut Body, state: &State) -> Result<()> {
    h.batch_ok(code, "mprotect", &objects::close_calls(&b.areas))?;
    flags::guard(h, code, &state.guards)?;
    names::give(h, code, &state.names)?;
    // A kernel without one of them would refuse the calls that it is for.
    h.batch(code, &membarrier::set_calls(state.membarrier))?;
    // A limit of this node may be lower than home's: then it is memory as any other.
    h.batch(code, &flags::lock_calls(&b.areas))?;
    h.batch(code, &flags::zero_calls(&state.zeros))?;
    let r = h.batch(code, &[mm::set_call(code, &state.mm)])?;
    ok("set the memory map's numbers", b.here, r[0])?;
    if let Some(foreign) = &mut b.vdso {
        foreign.install(h, code, state.vdso.clone())?;
    }
    Ok(())
}

/// Signals that were pending at the source are pending here.
fn requeue(guests: &mut GuestTable, pid: HomePid, pending: &[(Option<HomeTid>, Signal)]) {
    for (tid, s) in pending {
        if let Ok(info) = s.0.as_slice().try_into() {
            threads::queue_signal(guests, pid, *tid, info);
        }
    }
}
