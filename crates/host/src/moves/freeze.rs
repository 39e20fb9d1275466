//! Freezing a body: every thread halted, and no call under way.
//!
//! From: `depart.rs`. Next: `host/src/threads/halt.rs`.

use crate::calls;
use crate::state::{FOR_MOVE, GuestTable, Host, Process};
use crate::threads;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, Stay, Tid};
use armento_tracee::cpu;
use armento_wire::talk::ToHome;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A freeze that takes longer is given up; the process runs on.
const FREEZE_MAX: Duration = Duration::from_secs(3);

/// Freezes `pid`. After `Ok` every thread is halted, and every signal that home sent has been queued here:
/// those that come later wait at home. After an error it may be frozen, or half so: `unfreeze` it. Before: not in
/// the tracer thread.
pub fn freeze(host: &Arc<Host>, mv: MoveId, pid: HomePid) -> Result<()> {
    let until = Instant::now() + FREEZE_MAX;
    // Forks and mappings first: they are short, and a fork needs its home.
    let (proc, sleepers) = host
        .tracer
        .run(move |guests| begin(guests, mv, pid))
        .unwrap_or(Err(MigrateError::Ended))?;
    while proc.specials.load(Ordering::SeqCst) > 0 {
        if !proc.freezes(FOR_MOVE) {
            return Err(MigrateError::Ended);
        }
        if Instant::now() > until {
            return Err(MigrateError::Stays(
                Stay::Busy,
                "a fork or mapping is under way".into(),
            ));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    if !calls::end_sockets(host, &proc, until) {
        return Err(MigrateError::Stays(
            Stay::Busy,
            "home does not have its connections yet".into(),
        ));
    }
    calls::end_readahead(host, &proc, pid);
    calls::end_direct(host, &proc, pid);
    let (tx, rx) = mpsc::channel();
    host.tracer
        .run(move |guests| threads::halt(guests, pid, tx, sleepers));
    let left = || until.saturating_duration_since(Instant::now());
    let held = host
        .home
        .ask_stream(|seq| ToHome::Freezing { mv, pid, seq });
    let halted = rx.recv_timeout(left());
    let held = held.recv_timeout(left()).ok();
    match (halted, held) {
        (Ok(()), Some(_)) => Ok(()),
        (Err(mpsc::RecvTimeoutError::Disconnected), _) => Err(MigrateError::Ended),
        (Err(mpsc::RecvTimeoutError::Timeout), _) => Err(MigrateError::Stays(
            Stay::Busy,
            "a thread does not stop".into(),
        )),
        (Ok(()), None) => Err(MigrateError::Stays(
            Stay::LinkLost,
            "home does not answer".into(),
        )),
    }
}

/// Returns the threads that are in a call, by their numbers here.
fn begin(guests: &mut GuestTable, mv: MoveId, pid: HomePid) -> Result<(Arc<Process>, Vec<Tid>)> {
    // A move that was given up must not freeze: the order that ends its freeze has come already.
    if guests.shared.outgoing.aborted(mv) {
        return Err(MigrateError::Ended);
    }
    let b = guests.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let busy = b.proc.exiting.load(Ordering::Acquire)
        || b.quiet
        || b.stopped
        || b.releases.is_some()
        || b.threads.values().any(|t| t.asking);
    if busy || !b.threads.contains_key(&pid.leader()) {
        return Err(MigrateError::Stays(
            Stay::Busy,
            "it is stopped or about to end".into(),
        ));
    }
    // SeqCst, as in `Special::begin`: one of the two sees the other.
    b.proc.freeze(FOR_MOVE, true);
    // After the flag was set: a call that is not seen here does not begin any more.
    let sleepers = armento_migrate::stop_threads::delicate(b.here)?;
    cpu::look_ahead(b.threads.values().map(|t| t.thread.here));
    let sleepers = sleepers.into_iter().map(|c| c.tid).collect();
    Ok((b.proc.clone(), sleepers))
}

/// Ends a freeze: all threads run on.
pub fn unfreeze(host: &Arc<Host>, pid: HomePid) {
    host.tracer.run(move |guests| {
        if let Some(b) = guests.bodies.get_mut(&pid) {
            b.freezer = None;
            // Home may have overwritten the deputy's copy of the command line: it is sent again.
            b.proc.cmdline.store(0, Ordering::Relaxed);
            b.proc.freeze(FOR_MOVE, false);
        }
        threads::run_on(guests, pid);
    });
}
