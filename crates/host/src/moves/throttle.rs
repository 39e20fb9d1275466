//! Throttling: a process that writes faster than its pages travel stands still most of the time, for moments.
//!
//! From: `depart.rs`, on the way home, which takes no post-copy: the process runs there untraced, and its forks would
//! miss the pages. Each standstill is shorter than a pause may be, so that it is felt no more than a move; the rounds
//! then shrink, as in QEMU's "auto-converge" (docs/devel/migration).

use crate::state::{GuestTable, Host, THROTTLE};
use crate::threads;
use armento_model::{HomePid, Tid};
use armento_tracee::{sched_slice, spawn, status, trace};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// It is stopped for so long (a move may pause for 10 ms, and the last stop becomes that pause) …
const STANDS: Duration = Duration::from_millis(4);
/// … and runs for so long, microseconds: a seventh of the time, and less while its rounds do not get shorter. A process
/// that catches up with a clock writes as fast as memory takes it.
const RUNS_US: [u64; 3] = [600, 200, 65];

/// A process is throttled until this is dropped.
pub struct Throttle {
    over: Arc<AtomicBool>,
    /// Which of [`RUNS_US`].
    level: Arc<AtomicUsize>,
    /// Closed when its thread ends.
    ended: mpsc::Receiver<()>,
}

pub fn on(host: &Arc<Host>, pid: HomePid) -> Throttle {
    let (over, level) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (host, off, at) = (host.clone(), over.clone(), Arc::clone(&level));
    let (alive, ended) = mpsc::channel::<()>();
    // Without a thread the last round is a stop-and-copy.
    let _ = spawn::start("brake", move || {
        let _alive = alive;
        // The thread that starts this one copies, with a long slice.
        sched_slice::short_again();
        let slices = host
            .tracer
            .run(move |guests| shorten(guests, pid))
            .unwrap_or_default();
        while !off.load(Ordering::Acquire) {
            host.tracer.run(move |guests| stand(guests, pid));
            std::thread::sleep(STANDS);
            host.tracer.run(move |guests| go_on(guests, pid));
            let us = RUNS_US[at.load(Ordering::Acquire) % RUNS_US.len()];
            std::thread::sleep(Duration::from_micros(us));
        }
        host.tracer.run(move |guests| restore(guests, pid, &slices));
    });
    Throttle { over, level, ended }
}

impl armento_migrate::source::Throttle for Throttle {
    fn harder(&self) -> bool {
        let more = self.level.load(Ordering::Acquire) + 1 < RUNS_US.len();
        self.level.fetch_add(usize::from(more), Ordering::AcqRel);
        more
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = self.ended.recv();
    }
}

/// A thread that was woken runs on until the next tick of the kernel's, milliseconds, if its slice is not over. Returns
/// what the slices were, by thread.
fn shorten(guests: &mut GuestTable, pid: HomePid) -> Vec<(Tid, u64)> {
    let threads = guests.bodies.get(&pid).map(|b| b.threads.values());
    let here = threads.into_iter().flatten().map(|t| t.thread.here);
    here.filter_map(|tid| Some((tid, sched_slice::shorten(tid)?)))
        .collect()
}

/// Threads that were made meanwhile inherited a short one.
fn restore(guests: &mut GuestTable, pid: HomePid, slices: &[(Tid, u64)]) {
    let Some(b) = guests.bodies.get(&pid) else {
        return;
    };
    let first = slices.first().map(|(_, slice)| *slice);
    for tid in b.threads.values().map(|t| t.thread.here) {
        let its = slices.iter().find(|(t, _)| *t == tid).map(|(_, s)| *s);
        if let Some(slice) = its.or(first) {
            sched_slice::restore(tid, slice);
        }
    }
}

/// A thread that sleeps writes nothing, and is left alone.
fn stand(guests: &mut GuestTable, pid: HomePid) {
    let Some(b) = guests.bodies.get_mut(&pid) else {
        return;
    };
    b.proc.freeze(THROTTLE, true);
    for traced in b.threads.values().filter(|t| t.halted.is_none()) {
        if status::thread_state(traced.thread.here) == Some('R') {
            let _ = trace::interrupt(traced.thread.here);
        }
    }
}

fn go_on(guests: &mut GuestTable, pid: HomePid) {
    if let Some(b) = guests.bodies.get_mut(&pid) {
        b.proc.freeze(THROTTLE, false);
    }
    threads::run_on(guests, pid);
}
