//! Reads the state of a frozen body, all that the kernel remembers of it.
//!
//! From: `depart.rs`, in the tracer thread. Next: `migrate/src/image`.

use super::sharers::partners;
use super::survey::survey;
use crate::state::{Body, CallState, GuestTable, Original, SiginfoCookies, TracedThread};
use crate::sync::lock;
use crate::threads;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::{State, ThreadState, itimers, membarrier, mm, sigs, thread};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, MoveId, Pid};
use armento_tracee::inject::{self, Hold};
use armento_tracee::region::SCRATCH_AREAS;
use armento_tracee::{status, sys, trace};
use armento_wire::talk::Signal;
use std::sync::atomic::Ordering;

/// Before: frozen; home may have given the move up since, and the process runs on. `elsewhere`: its target has another
/// vDSO.
pub fn capture(
    guests: &mut GuestTable,
    mv: MoveId,
    pid: HomePid,
    here: Pid,
    elsewhere: bool,
) -> Result<(Survey, State)> {
    let code = guests.code.clone();
    let allowlist = guests.allowlist();
    let shared = guests.shared.clone();
    let stands = guests.bodies.get(&pid).is_some_and(Body::still);
    if shared.outgoing.aborted(mv) || !stands {
        return Err(MigrateError::Ended);
    }
    let mut others = Views::default();
    for (_, areas) in partners(guests, pid)?.iter().filter(|(p, _)| *p < pid) {
        others.add(areas);
    }
    let b = guests.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let foreign = b.vdso.clone();
    let mut last = survey(here, foreign.as_ref().map(|f| f.home))?;
    objects::travels(&last.areas)?;
    for (object, o) in lock(&shared.objects).iter().filter(|(_, o)| !o.lasts) {
        last.objects.extend(o.held(*object, &last.areas, &others)?);
    }
    let mut numbers = mm::read(here, last.vdso)?;
    let mut threads = Vec::new();
    let mut pending: Vec<(Option<HomeTid>, Signal)> = Vec::new();
    let mut actions = Vec::new();
    let mut itimers = itimers::Itimers::default();
    let mut registered = 0;
    // Before injected calls use any.
    let cpu = b.proc.cpu_travels();
    let ignores = inject::ignores_trap(here);
    let all: Vec<&TracedThread> = b.threads.values().collect();
    for part in all.chunks(SCRATCH_AREAS) {
        let mut held = Vec::with_capacity(part.len());
        for (n, traced) in part.iter().enumerate() {
            let here = traced.thread.here;
            let used = traced.thread.cpu_travels();
            let mut h = Hold::take_known(here, allowlist.clone(), ignores)?;
            if traced.thread.tid.leads(pid) {
                mm::read_brk(&mut h, &code, &mut numbers)?;
                actions = sigs::read(&mut h, &code)?;
                itimers = itimers::read(&mut h, &code)?;
                registered = membarrier::read(&mut h, &code)?;
            }
            let own = thread::own_eintr(here);
            match (&foreign, last.vdso) {
                (Some(foreign), _) => foreign.leave(&mut h)?,
                (None, Some(vdso)) if elsewhere => vdso.leave(&mut h)?,
                (None, _) => {}
            }
            thread::ask(&mut h, &code.scratch_area(n), thread::At::Host)?;
            held.push((h, used, own));
        }
        for (n, (traced, (mut h, used, own))) in part.iter().zip(held).enumerate() {
            let mut t = thread::read(&mut h, &code.scratch_area(n), traced.thread.tid, own)?;
            // Read from outside: the thread would ask home, through its listener.
            t.name = status::comm(here, traced.thread.here);
            t.cpu = used;
            remembered(&lock(&traced.thread.call), &mut t);
            threads.push(t);
        }
    }
    for traced in all {
        let (tid, here) = (traced.thread.tid, traced.thread.here);
        if let Some((_, info)) = traced.halted.as_ref().and_then(|h| h.signal) {
            pending.push((Some(tid), Signal(info.to_vec())));
        }
        for s in trace::pending(here, false)? {
            pending.extend(original(&guests.cookies, Some(tid), s));
        }
        if tid.leads(pid) {
            for s in trace::pending(here, true)? {
                pending.extend(original(&guests.cookies, None, s));
            }
        }
    }
    threads.sort_by_key(|t| (!t.tid.leads(pid), t.tid));
    let overruns = lock(&b.proc.overruns).clone().into_iter().collect();
    Ok((
        last,
        State {
            zeros: Vec::new(),
            threads,
            actions,
            mm: numbers,
            overruns,
            itimers,
            signalfds: b.proc.signalfds.load(Ordering::Relaxed),
            limits: sys::limits(here),
            persona: status::personality(here),
            membarrier: registered,
            names: Vec::new(),
            guards: Vec::new(),
            pending,
            cpu,
            vdso: Vec::new(),
        },
    ))
}

/// Adds what the host knows of the call that a thread is in.
fn remembered(st: &CallState, t: &mut ThreadState) {
    t.at_deputy = st.at_deputy;
    t.mask = st.own_mask.unwrap_or(t.mask);
    if let Some(nr) = st.again.filter(|_| st.slept) {
        t.slept_in(nr.into());
    }
    if let (Some(nr), 1..) = (st.again, st.done) {
        t.has_written(st.done, nr.into());
    }
    if !t.at_deputy && t.restarts() {
        // The one restartable call that bodies make in their own kernel.
        t.begin_anew(libc::SYS_futex);
    }
    threads::futex_travels(st, t);
}

/// A pending signal as it travels. It stays pending here: the move may fail.
fn original(
    v: &SiginfoCookies,
    to: Option<HomeTid>,
    s: sys::SigInfo,
) -> Option<(Option<HomeTid>, Signal)> {
    let real = match v.original(&s) {
        Some(Original::Info(real)) => real,
        Some(Original::Void) => return None,
        None => s,
    };
    // A held thread gives a SIGTRAP back to its process.
    let to = v.directed(&s).unwrap_or(to);
    Some((to, Signal(real.to_vec())))
}
