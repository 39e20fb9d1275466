//! A process that writes faster than its pages travel stands still most of the time, for moments.
//!
//! From: `depart.rs`, on the way home, which takes no pages behind the flip: it runs there untraced, and its forks would
//! miss them. Each standstill is shorter than a pause may be, so that nobody feels more of this than of a move; the
//! rounds then shrink, as QEMU's "auto-converge" has it (docs/devel/migration).

use crate::state::guests::Zoo;
use crate::state::shared::{BRAKE, Shared};
use crate::threads::stops;
use armento_model::{Pid, Tid};
use armento_tracee::{aside, slice, status, trace};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// It stands still for so long (a move may pause for 10 ms, and the last standstill goes over into that) …
const STANDS: Duration = Duration::from_millis(4);
/// … and runs for so long, microseconds: a seventh of the time, and less while its rounds do not get shorter. One that
/// catches up with a clock writes as fast as memory takes it.
const RUNS_US: [u64; 3] = [600, 200, 65];

/// Until this is dropped.
pub struct Brake {
    over: Arc<AtomicBool>,
    /// Which of [`RUNS_US`].
    level: Arc<AtomicUsize>,
    /// Closed by its thread's end.
    ended: mpsc::Receiver<()>,
}

pub fn on(sh: &Arc<Shared>, pid: Pid) -> Brake {
    let (over, level) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (sh, off, at) = (sh.clone(), over.clone(), Arc::clone(&level));
    let (alive, ended) = mpsc::channel::<()>();
    // Without a thread it is a stop-copy.
    let _ = aside::start("brake", move || {
        let _alive = alive;
        // Started by one that copies.
        slice::short_again();
        let slices = sh
            .hand
            .run(move |zoo| shorten(zoo, pid))
            .unwrap_or_default();
        while !off.load(Ordering::Acquire) {
            sh.hand.run(move |zoo| stand(zoo, pid));
            std::thread::sleep(STANDS);
            sh.hand.run(move |zoo| go_on(zoo, pid));
            let us = RUNS_US[at.load(Ordering::Acquire) % RUNS_US.len()];
            std::thread::sleep(Duration::from_micros(us));
        }
        sh.hand.run(move |zoo| restore(zoo, pid, &slices));
    });
    Brake { over, level, ended }
}

impl armento_migrate::source::Brake for Brake {
    fn harder(&self) -> bool {
        let more = self.level.load(Ordering::Acquire) + 1 < RUNS_US.len();
        self.level.fetch_add(usize::from(more), Ordering::AcqRel);
        more
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = self.ended.recv();
    }
}

/// Whoever was woken runs on until the next tick of the kernel's, milliseconds, if its slice is not over. What the slices
/// were, by thread.
fn shorten(zoo: &mut Zoo, pid: Pid) -> Vec<(Tid, u64)> {
    let threads = zoo.bodies.get(&pid).map(|b| b.threads.values());
    let here = threads.into_iter().flatten().map(|t| t.cell.here);
    here.filter_map(|tid| Some((tid, slice::shorten(tid)?)))
        .collect()
}

/// Threads that were made meanwhile began with a short one, too.
fn restore(zoo: &mut Zoo, pid: Pid, slices: &[(Tid, u64)]) {
    let Some(b) = zoo.bodies.get(&pid) else {
        return;
    };
    let first = slices.first().map(|(_, slice)| *slice);
    for tid in b.threads.values().map(|t| t.cell.here) {
        let its = slices.iter().find(|(t, _)| *t == tid).map(|(_, s)| *s);
        if let Some(slice) = its.or(first) {
            slice::restore(tid, slice);
        }
    }
}

/// Who sleeps writes nothing, and is left alone.
fn stand(zoo: &mut Zoo, pid: Pid) {
    let Some(b) = zoo.bodies.get_mut(&pid) else {
        return;
    };
    b.proc.freeze(BRAKE, true);
    for th in b.threads.values().filter(|t| t.halted.is_none()) {
        if status::thread_state(th.cell.here) == Some('R') {
            let _ = trace::interrupt(th.cell.here);
        }
    }
}

fn go_on(zoo: &mut Zoo, pid: Pid) {
    if let Some(b) = zoo.bodies.get_mut(&pid) {
        b.proc.freeze(BRAKE, false);
    }
    stops::run_on(zoo, pid);
}
