//! Halts the threads of a body for a move, and notifies the move when all stand still.
//!
//! From: `host/src/moves/freeze.rs`. Next: `stops.rs`, which reports each halted thread.

use crate::state::{Body, FOR_MOVE, Freezer, GuestTable, Shared, TracedThread, Waiting};
use crate::sync::lock;
use armento_model::{HomePid, Tid};
use armento_tracee::trace;
use std::sync::mpsc;

/// Stops the threads of a frozen body and sends to `tx` when all stand still. `sleepers`: those in a call, which are
/// stopped first.
pub fn halt(guests: &mut GuestTable, pid: HomePid, tx: mpsc::Sender<()>, sleepers: Vec<Tid>) {
    let shared = guests.shared.clone();
    // The move may have been given up meanwhile.
    let frozen = |b: &&mut Body| b.proc.freezes(FOR_MOVE);
    let Some(b) = guests.bodies.get_mut(&pid).filter(frozen) else {
        return;
    };
    b.freezer = Some(Freezer {
        tx,
        first: sleepers,
        others: false,
    });
    let first = |f: &Freezer, t: &TracedThread| f.first.contains(&t.thread.here);
    interrupt(&shared, b, first);
    notify_move(&shared, b);
}

/// Those that sleep are stopped first, the others when these stand: until then they run on.
fn interrupt(shared: &Shared, b: &Body, which: impl Fn(&Freezer, &TracedThread) -> bool) {
    let Some(f) = &b.freezer else { return };
    let running = b.threads.values().filter(|t| t.halted.is_none());
    for traced in running.filter(|t| which(f, t)) {
        let _ = trace::interrupt(traced.thread.here);
        let mut st = lock(&traced.thread.call);
        if let Some(Waiting::Parked { id }) = st.waiting {
            st.waiting = None;
            shared.listener.reply(id, -513);
        }
    }
}

/// A thread was halted, or is no more, while a move may wait for all of them.
pub fn notify_move(shared: &Shared, body: &mut Body) {
    let halted = |t: &TracedThread| t.halted.is_some();
    let Some(f) = body.freezer.as_mut() else {
        return;
    };
    let first = |t: &&TracedThread| f.first.contains(&t.thread.here);
    if !f.others && body.threads.values().filter(first).all(halted) {
        f.others = true;
        interrupt(shared, body, |_, _| true);
    }
    if body.threads.values().all(halted)
        && let Some(f) = body.freezer.take()
    {
        let _ = f.tx.send(());
    }
}
