//! Calls that wait until their connection is direct, or home again.
//!
//! From: `sockets.rs`, `socket_polls.rs`. Next: the call is taken up as if it came now.

use crate::state::{Behind, GuestThread, Host, SocketEnd, Waiting};
use crate::sync::lock;
use crate::threads;
use armento_migrate::image::restarts::ERESTARTSYS;
use armento_tracee::notify::Notice;
use armento_tracee::spawn;
use std::sync::Arc;

/// Takes a call up as if it came now.
pub type Again = fn(&Arc<Host>, &Notice);

/// The call is taken up again when the end has another phase.
pub fn waits_behind(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    end: &Arc<SocketEnd>,
    again: Again,
) -> bool {
    let behind = Behind {
        thread: thread.clone(),
        notice: *n,
        begun: false,
    };
    let mut st = lock(&end.state);
    if host.sockets.get(end.id).is_none() {
        // Home has taken it back meanwhile.
        drop(st);
        again_soon(host, vec![behind], again);
        return true;
    }
    lock(&thread.call).waiting = Some(Waiting::Special);
    st.behind.push(behind);
    true
}

/// Calls are taken up as if they came now.
pub fn again_soon(host: &Arc<Host>, calls: Vec<Behind>, again: Again) {
    if calls.is_empty() {
        return;
    }
    let host = host.clone();
    spawn::soon("sockets", move || {
        for Behind {
            thread,
            notice,
            begun,
        } in calls
        {
            let mut call = lock(&thread.call);
            call.waiting = None;
            if begun && thread.proc.frozen() {
                // KERNEL: ERESTARTSYS: a handler ends it with EINTR, unless it has SA_RESTART.
                call.again = Some(notice.nr);
                drop(call);
                let thread = thread.clone();
                host.tracer.post(move |guests| {
                    threads::restart_call(guests, &thread, notice.id, ERESTARTSYS);
                });
                continue;
            }
            drop(call);
            again(&host, &notice);
        }
    });
}
