//! The threads of a body that is built: made stopped, then given their state.

use crate::inject::{clone_args, made, wait_first_stop};
use crate::state::{GuestTable, GuestThread, TracedThread};
use crate::sync::lock;
use crate::threads;
use armento_migrate::image::restarts;
use armento_migrate::image::{State, thread};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, Stay};
use armento_tracee::inject::{Hold, ok};
use armento_tracee::region::SCRATCH_AREAS;
use armento_tracee::trace::{self, Stopped, TraceError};

fn enter(guests: &mut GuestTable, pid: HomePid, tid: HomeTid, stopped: Stopped) {
    let shared = guests.shared.clone();
    let Some(b) = guests.bodies.get_mut(&pid) else {
        return;
    };
    let thread = GuestThread::new(pid, tid, stopped.tid(), b.proc.clone());
    shared.threads.insert(&thread);
    b.threads
        .insert(tid, TracedThread::stopped(thread, stopped));
}

/// What a thread shares with its process, as pthread_create(3) has it.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Makes the threads that an unthawed body lacks; each stays stopped until its state is restored.
pub fn make_threads(
    guests: &mut GuestTable,
    pid: HomePid,
    tids: impl Iterator<Item = HomeTid>,
) -> Result<()> {
    let (code, allowlist) = (guests.code.clone(), guests.allowlist());
    let b = guests.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    let lacking: Vec<HomeTid> = tids.filter(|t| !b.threads.contains_key(t)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut h = Hold::take(b.here, allowlist)?;
    for tid in lacking {
        let args = clone_args(&code, THREAD as u64, 0, 0, 0, 0, Some(tid));
        let (r, child) = h.call(&code, libc::SYS_clone3, [args, 88, 0, 0, 0, 0])?;
        ok("clone3 of a thread", h.tid, r)?;
        let child = made(r, child).ok_or(MigrateError::Ended)?;
        let stopped = wait_first_stop(child)?;
        enter(guests, pid, tid, stopped);
    }
    Ok(())
}

/// Ends threads that were made at the offer and have ended at the source since then.
pub fn retire_others(guests: &mut GuestTable, pid: HomePid, state: &State) -> Result<()> {
    let (code, allowlist, shared) = (
        guests.code.clone(),
        guests.allowlist(),
        guests.shared.clone(),
    );
    let b = guests.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let ended = |t: &HomeTid| !state.threads.iter().any(|s| s.tid == *t);
    let over: Vec<HomeTid> = b.threads.keys().copied().filter(ended).collect();
    for traced in over.iter().filter_map(|t| b.threads.remove(t)) {
        shared.threads.remove(&traced.thread);
        let mut h = Hold::take(traced.thread.here, allowlist.clone())?;
        match h.call(&code, libc::SYS_exit, [0; 6]) {
            Err(TraceError::Gone(_)) => {}
            _ => {
                return Err(MigrateError::Stays(
                    Stay::TargetFailed,
                    "a thread does not end".into(),
                ));
            }
        }
    }
    Ok(())
}

/// Restores the state of the threads, many at once; they stay stopped. `ignores`: see [`Hold::take_known`].
pub fn restore_threads(
    guests: &mut GuestTable,
    pid: HomePid,
    state: &State,
    ignores: bool,
) -> Result<()> {
    let (code, allowlist) = (guests.code.clone(), guests.allowlist());
    let b = guests.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    for part in state.threads.chunks(SCRATCH_AREAS) {
        let mut held = Vec::with_capacity(part.len());
        for (n, t) in part.iter().enumerate() {
            let thread = &b.threads.get(&t.tid).ok_or(MigrateError::Ended)?.thread;
            let mut h = Hold::take_known(thread.here, allowlist.clone(), ignores)?;
            let scratch_area = code.scratch_area(n);
            let mut calls = thread::set_calls(&scratch_area, t);
            if t.name != b.name {
                calls.push(thread::name_call(&scratch_area, &t.name));
            }
            if state.persona != 0 {
                // Each thread has its own. After the mappings were made: READ_IMPLIES_EXEC would change them.
                calls.push((libc::SYS_personality, [state.persona.into(), 0, 0, 0, 0, 0]));
            }
            h.begin(&scratch_area, &calls)?;
            held.push((h, thread));
        }
        for (n, (h, _)) in held.iter_mut().enumerate() {
            h.end_ok(&code.scratch_area(n), "restore thread")?;
        }
        for (t, (h, thread)) in part.iter().zip(held) {
            trace::set_xstate(thread.here, &t.xstate)?;
            let regs = thread::from_words(&t.regs)
                .ok_or_else(|| MigrateError::Stays(Stay::TargetFailed, "bad registers".into()))?;
            h.finish(regs, t.mask)?;
            let mut st = lock(&thread.call);
            st.at_deputy = t.at_deputy;
            st.again = t.again.then_some(regs.orig_rax as i32);
            st.slept = regs.rax as i64 == restarts::ERESTARTNOHAND;
            st.done = t.written;
            threads::futex_came(&mut st, t, &regs);
            drop(st);
            lock(&thread.cpu).carried = t.cpu;
        }
    }
    Ok(())
}
