//! A process that writes faster than its pages travel stands still most of the time, for moments.
//!
//! From: `depart.rs`, on the way home, which takes no pages behind the flip: it runs there untraced, and its forks would
//! miss them. Each standstill is shorter than a pause may be, so that nobody feels more of this than of a move; the
//! rounds then shrink, as QEMU's "auto-converge" has it (docs/devel/migration).

use crate::bodies;
use crate::shared::{BRAKE, Shared};
use crate::world::Zoo;
use armento_model::Pid;
use armento_tracee::{aside, status, trace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// It stands still for so long (a move may pause for 10 ms) …
const STANDS: Duration = Duration::from_millis(8);
/// … and runs for so long: a seventh of the time.
const RUNS: Duration = Duration::from_micros(1200);

/// Until this is dropped.
pub struct Brake {
    over: Arc<AtomicBool>,
    /// Closed by its thread's end.
    ended: mpsc::Receiver<()>,
}

pub fn on(sh: &Arc<Shared>, pid: Pid) -> Brake {
    let over = Arc::new(AtomicBool::new(false));
    let (sh, off) = (sh.clone(), over.clone());
    let (alive, ended) = mpsc::channel::<()>();
    // Without a thread it is a stop-copy.
    let _ = aside::start("brake", move || {
        let _alive = alive;
        while !off.load(Ordering::Acquire) {
            sh.hand.run(move |zoo| stand(zoo, pid));
            std::thread::sleep(STANDS);
            sh.hand.run(move |zoo| go_on(zoo, pid));
            std::thread::sleep(RUNS);
        }
    });
    Brake { over, ended }
}

impl Drop for Brake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = self.ended.recv();
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
    bodies::run_on(zoo, pid);
}
