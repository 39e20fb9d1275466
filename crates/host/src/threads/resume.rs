//! How a stopped thread of a guest goes on: into the call that the stop interrupted, or into a handler.
//!
//! From: `stops.rs`. Next: the guest's kernel.

use crate::state::{GuestTable, GuestThread, may_wait_here};
use crate::sync::lock;
use armento_migrate::image::masked::{self, Led};
use armento_migrate::image::restarts;
use armento_migrate::image::thread;
use armento_migrate::stop_threads::without_effect;
use armento_model::Tid;
use armento_tracee::status;
use armento_tracee::trace::{self, Status, Stop, Stopped};

/// KERNEL: struct rt_sigframe: pretcode 8, ucontext: flags 8, link 8, stack 24, sigcontext 256, then the mask.
const FRAME_MASK: u64 = 304;

/// A stop met a call whose notification was not received yet: it was not begun, and no handler may end it.
/// KERNEL: seccomp_do_user_notification ends it with ERESTARTSYS; WAIT_KILLABLE_RECV holds from its receipt on.
pub fn unsent(guests: &GuestTable, here: Tid) {
    let (Some(thread), Ok(mut r)) = (guests.shared.threads.here(here), trace::regs(here)) else {
        return;
    };
    let nr = r.orig_rax as i64;
    if r.rax as i64 != restarts::ERESTARTSYS || nr < 0 {
        return;
    }
    // A call that home answered so, that is issued again or that the kernel of the body runs was begun.
    let begun = lock(&thread.call).again == Some(nr as i32)
        || may_wait_here(nr)
        || armento_abi::place_of(nr as u64, &trace::args(&r)) == armento_abi::Verdict::Body;
    if !begun {
        restarts::begin_anew(&mut r);
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(here, &r);
    }
}

/// A stopped thread goes on, with its call if it is in one. Returns what it has stopped at instead.
pub fn go_on(stopped: Stopped) -> Option<Status> {
    thread::settle_stopped(stopped.tid());
    match masked::lead(stopped) {
        Led::Still(stopped) | Led::At(Some(Status::Stopped(stopped, Stop::Call))) => {
            let _ = trace::resume(stopped, 0);
            None
        }
        Led::At(other) => other,
    }
}

/// A call that waits under its own mask was interrupted: if a signal that only this mask lets through
/// waits, take the mask for its delivery (see `deliver`, which puts the real one into the frame).
pub fn lift_mask(thread: &GuestThread) {
    let mut st = lock(&thread.call);
    if st.wait_mask.is_none() && st.own_mask.is_none() {
        return;
    }
    let Ok(s) = status::read(thread.here) else {
        return;
    };
    let waiting = (s.sig_pending | s.shared_pending) & !without_effect(&s);
    match (st.wait_mask.take(), st.own_mask) {
        (_, Some(real)) if waiting & !s.blocked == 0 => {
            // It was stopped, and nothing else.
            st.own_mask = None;
            let _ = trace::set_sigmask(thread.here, real);
        }
        (Some(mask), None) if waiting & !mask != 0 => {
            // As the kernel's saved mask.
            st.own_mask = Some(s.blocked);
            let _ = trace::set_sigmask(thread.here, mask);
        }
        _ => {}
    }
}

/// Runs a handler; after it the thread has its own mask.
pub fn deliver(thread: &GuestThread, stopped: Stopped, sig: i32) {
    let mut st = lock(&thread.call);
    // A handler cancels every restart of a call.
    st.again = None;
    st.slept = false;
    st.at_deputy = false;
    match std::mem::take(&mut st.done) {
        0 => {}
        written => end_with_part(thread, written),
    }
    let Some(real) = st.own_mask.take() else {
        masked::deliver_before(thread.here, sig);
        drop(trace::resume(stopped, sig));
        return;
    };
    drop(st);
    if trace::step(stopped, sig).is_err() {
        return;
    }
    if let Ok(Status::Stopped(stopped, _)) = trace::wait_certain(thread.here)
        && let Ok(r) = trace::regs(thread.here)
    {
        thread.write(r.rsp + FRAME_MASK, &real.to_le_bytes());
        let _ = trace::resume(stopped, 0);
    }
}

/// A handler is about to run in a stopped thread: its call ends with the bytes that are done.
fn end_with_part(thread: &GuestThread, written: u64) {
    let Ok(mut r) = trace::regs(thread.here) else {
        return;
    };
    if restarts::turned_back(thread.here, &r) {
        r.rip += 2;
    } else if !restarts::interrupted(&r) {
        return;
    }
    (r.rax, r.orig_rax) = (written, u64::MAX);
    // One that died meanwhile needs nothing.
    let _ = trace::set_regs(thread.here, &r);
}
