//! How a stopped thread of a guest goes on: into the call that the stop interrupted, or into a handler.
//!
//! From: `bodies.rs` (what it stopped at). Next: the guest's kernel.

use crate::calls::{dispatch, partial_io};
use crate::state::guests::Zoo;
use crate::state::shared::{Cell, lock};
use crate::threads::stops;
use armento_migrate::image::{masked, thread};
use armento_migrate::stop::without_effect;
use armento_model::Tid;
use armento_tracee::hand::World;
use armento_tracee::status;
use armento_tracee::trace::{self, Status, Stop};

/// KERNEL: struct rt_sigframe: pretcode 8, ucontext: flags 8, link 8, stack 24, sigcontext 256, then the mask.
const FRAME_MASK: u64 = 304;

/// A stop met a call whose notification nobody had received: it was not begun, and no handler may end it.
/// KERNEL: seccomp_do_user_notification ends it with ERESTARTSYS; WAIT_KILLABLE_RECV holds from its receipt on.
pub fn unsent(zoo: &Zoo, here: Tid) {
    let (Some(cell), Ok(mut r)) = (zoo.sh().cell(here), trace::regs(here)) else {
        return;
    };
    let nr = r.orig_rax as i64;
    if r.rax as i64 != thread::ERESTARTSYS || nr < 0 {
        return;
    }
    // One that home has answered so, that is issued again or that the body's kernel serves was begun.
    let begun = lock(&cell.st).again == Some(nr as i32)
        || dispatch::waits_here(nr)
        || armento_abi::place_of(nr as u64, &trace::args(&r)) == armento_abi::Verdict::Body;
    if !begun {
        thread::begin_anew(&mut r);
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(here, &r);
    }
}

/// A stopped thread goes on, with its call if it is in one.
pub fn go_on(zoo: &mut Zoo, here: Tid) {
    thread::settle_stopped(here);
    match masked::lead(here) {
        None | Some(Status::Stopped(Stop::Call)) => drop(trace::resume(here, 0)),
        Some(Status::Stopped(Stop::Signal(sig))) => stops::at_signal(zoo, here, sig),
        Some(other) => World::report(zoo, here, other),
    }
}

/// A call that waits under its own mask was interrupted: if a signal that only this mask lets through
/// waits, take the mask for its delivery (see `deliver`, which puts the real one into the frame).
pub fn lift_mask(cell: &Cell) {
    let mut st = lock(&cell.st);
    if st.wait_mask.is_none() && st.lifted.is_none() {
        return;
    }
    let Ok(s) = status::read(cell.here) else {
        return;
    };
    let waiting = (s.sig_pending | s.shared_pending) & !without_effect(&s);
    match (st.wait_mask.take(), st.lifted) {
        (_, Some(real)) if waiting & !s.blocked == 0 => {
            // It was stopped, and nothing else.
            st.lifted = None;
            let _ = trace::set_sigmask(cell.here, real);
        }
        (Some(mask), None) if waiting & !mask != 0 => {
            // As the kernel's saved mask.
            st.lifted = Some(s.blocked);
            let _ = trace::set_sigmask(cell.here, mask);
        }
        _ => {}
    }
}

/// Runs a signal's handler; behind it the thread has its own mask.
pub fn deliver(cell: &Cell, sig: i32) {
    let mut st = lock(&cell.st);
    // A handler ends every story of restarted calls.
    st.again = None;
    st.slept = false;
    st.at_deputy = false;
    match std::mem::take(&mut st.written) {
        0 => {}
        written => partial_io::give_up(cell, written),
    }
    let Some(real) = st.lifted.take() else {
        masked::deliver_before(cell.here, sig);
        drop(trace::resume(cell.here, sig));
        return;
    };
    drop(st);
    if trace::step(cell.here, sig).is_err() {
        return;
    }
    if let Ok(Status::Stopped(_)) = trace::wait_certain(cell.here)
        && let Ok(r) = trace::regs(cell.here)
    {
        cell.write(r.rsp + FRAME_MASK, &real.to_le_bytes());
        let _ = trace::resume(cell.here, 0);
    }
}
