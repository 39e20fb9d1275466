//! Posts a call: remembers what waits for its reply, and sends it home.
//!
//! From: `forward.rs` and its neighbours. Next: `reply.rs`.

use crate::state::{Asked, GuestThread, Host, Shared, Then, Waiting};
use crate::sync::lock;
use crate::threads;
use armento_abi::Plan;
use armento_migrate::stop_threads::without_effect;
use armento_tracee::notify::Notice;
use armento_tracee::status;
use armento_wire::call::{AGAIN, Call, FACTS, NAMES};
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Notes what waits, then sends the call.
pub fn post(
    shared: &Shared,
    thread: &GuestThread,
    n: &Notice,
    plan: Plan,
    wait_mask: Option<u64>,
    mask: u64,
    then: Then,
) {
    let seq = shared.home.number();
    let packed = plan.packed.clone();
    let mut st = lock(&thread.call);
    let again = st.again.take() == Some(n.nr);
    st.slept &= again;
    let mut flags = if again { AGAIN } else { 0 };
    st.asked = None;
    let ask = std::mem::take(&mut st.ask);
    if ask.names {
        flags |= NAMES;
    }
    if ask.facts {
        flags |= FACTS;
        st.asked = Some(Asked {
            seq,
            descriptors: lock(&thread.proc.descriptors).stamp(),
            ended: lock(&thread.proc.readahead).ended,
            direct: lock(&thread.proc.direct).ended,
        });
    }
    let mask = match thread.proc.signalfds.load(Ordering::Relaxed) {
        0 => mask,
        _ => status::read(thread.here).map_or(mask, |s| s.blocked),
    };
    st.wait_mask = wait_mask;
    st.seq = seq;
    st.sent = Some(Instant::now());
    st.waiting = Some(Waiting::Call {
        id: n.id,
        seq,
        plan: Box::new(plan),
        then,
    });
    thread.proc.forwarded.fetch_add(1, Ordering::Relaxed);
    st.posted_before = shared.home.send_call(&Call {
        tid: thread.tid,
        seq,
        flags,
        mask,
        packed,
    });
    // Under the lock: a Nudge about this call must not be sent before it.
    let queued = thread.proc.signals_queued.load(Ordering::SeqCst);
    let new = std::mem::replace(&mut st.signals, queued) != queued;
    if new && signal_is_pending(thread, wait_mask) {
        // It was queued before the call was noted as under way.
        shared.home.send(&ToHome::Nudge {
            tid: thread.tid,
            seq,
        });
    }
}

/// Is a signal pending at the body that its thread would take?
pub fn signal_is_pending(thread: &GuestThread, mask: Option<u64>) -> bool {
    status::read(thread.here).is_ok_and(|s| {
        let blocked = mask.unwrap_or(s.blocked) | without_effect(&s);
        (s.sig_pending | s.shared_pending) & !blocked != 0
    })
}

/// A call that arrived during a freeze: its thread stops, and the call is issued again, here or elsewhere.
pub fn park(host: &Arc<Host>, thread: &Arc<GuestThread>, id: u64) {
    lock(&thread.call).waiting = Some(Waiting::Parked { id });
    let thread = thread.clone();
    host.tracer
        .post(move |guests| threads::unpark(guests, &thread));
}
