//! Signals from home: queued at the body, or kept for one that is not born yet.
//!
//! From: `host/src/home/messages.rs`. Next: `stops.rs`, when the signal is delivered.

use super::interrupt_call::restart_call;
use super::timer_signals;
use crate::state::{EARLY_MAX, EarlySignals, GuestTable, GuestThread, Waiting};
use crate::sync::lock;
use armento_migrate::image::restarts::ERESTARTSYS;
use armento_migrate::stop_threads::without_effect;
use armento_model::{HomePid, HomeTid, Tid};
use armento_tracee::call::bit;
use armento_tracee::status;
use armento_tracee::sys::{self, SigInfo};
use armento_wire::sockets::EndId;
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A signal from home.
pub fn queue_signal(guests: &mut GuestTable, pid: HomePid, tid: Option<HomeTid>, info: &SigInfo) {
    let known = guests.bodies.get(&pid);
    let known = known.filter(|b| tid.is_none_or(|t| b.threads.contains_key(&t)));
    if known.is_none() {
        return keep_early(guests, tid.unwrap_or(pid.leader()), info);
    }
    if timer_signals::absorbed(guests, pid, info) {
        return;
    }
    let Some(body) = guests.bodies.get(&pid) else {
        return;
    };
    let here = tid
        .and_then(|t| body.threads.get(&t))
        .map(|t| t.thread.here);
    let leader = body.here;
    let sig = i32::from_le_bytes(info[..4].try_into().unwrap_or_default());
    let proc = body.proc.clone();
    let send = guests.cookies.issue(pid, tid, info);
    // Counted first: a thread about to send its call reads the count after it has noted the call (see `calls/post.rs`).
    proc.signals_queued.fetch_add(1, Ordering::SeqCst);
    let _ = sys::sigqueue(leader, here, sig, &send);
    interrupt_call(guests, pid, tid, sig);
}

fn keep_early(guests: &mut GuestTable, id: HomeTid, info: &SigInfo) {
    let at = guests.early.iter().position(|e| e.id == id);
    let at = at.unwrap_or_else(|| {
        if guests.early.len() >= EARLY_MAX {
            guests.early.pop_front();
        }
        guests.early.push_back(EarlySignals {
            id,
            ..EarlySignals::default()
        });
        guests.early.len() - 1
    });
    let e = &mut guests.early[at];
    e.count += 1;
    if e.list.len() < EARLY_MAX {
        e.list.push(*info);
    }
}

/// A process or thread was born here: signals that came before it are queued now.
pub fn queue_early(guests: &mut GuestTable, pid: HomePid, tid: HomeTid) {
    let at = guests.early.iter().position(|e| e.id == tid);
    let Some(e) = at.and_then(|i| guests.early.remove(i)) else {
        return;
    };
    for info in e.list {
        queue_signal(guests, pid, Some(tid).filter(|t| !t.leads(pid)), &info);
    }
    if tid.leads(pid)
        && let Some(b) = guests.bodies.get(&pid)
    {
        b.proc.signals_received.fetch_add(e.count, Ordering::SeqCst);
    }
}

/// A signal ends a wait for a connection that goes directly to another host, as it ends it in the kernel: with the bytes that
/// are done, or to be issued again.
pub fn end_socket_wait(guests: &GuestTable, thread: &Arc<GuestThread>, end: EndId, id: u64) {
    let end = guests.shared.sockets.get(end);
    let Some(wait) = end.and_then(|end| end.take_wait(id)) else {
        return;
    };
    if wait.done > 0 {
        guests.shared.listener.reply(id, wait.done as i64);
        return;
    }
    lock(&thread.call).again = Some(wait.notice.nr);
    restart_call(guests, thread, id, ERESTARTSYS);
}

/// The deputy may have taken the signal before it got the call that the signal must interrupt: home is sent a Nudge.
fn interrupt_call(guests: &GuestTable, pid: HomePid, to: Option<HomeTid>, sig: i32) {
    let Some(body) = guests.bodies.get(&pid) else {
        return;
    };
    let open = |here: Tid, mask: Option<u64>| {
        status::read(here)
            .is_ok_and(|s| (mask.unwrap_or(s.blocked) | without_effect(&s)) & bit(sig) == 0)
    };
    for traced in body
        .threads
        .values()
        .filter(|t| to.is_none_or(|to| to == t.thread.tid))
    {
        let (seq, mask) = {
            let st = lock(&traced.thread.call);
            match &st.waiting {
                Some(Waiting::Call { seq, .. }) => (*seq, st.wait_mask),
                Some(Waiting::Socket { id, end }) => {
                    let (id, end) = (*id, *end);
                    drop(st);
                    if open(traced.thread.here, None) {
                        return end_socket_wait(guests, &traced.thread, end, id);
                    }
                    continue;
                }
                _ => continue,
            }
        };
        if open(traced.thread.here, mask) {
            guests.shared.home.send(&ToHome::Nudge {
                tid: traced.thread.tid,
                seq,
            });
            return;
        }
    }
}
