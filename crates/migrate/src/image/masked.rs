//! Calls that wait under a signal mask of their own (ppoll, pselect, epoll_pwait), interrupted by a stop.
//!
//! From: `stop.rs`, `thread.rs` and both sides of a move. Next: the kernel, which issues the call again or ends it
//! by a handler.
//!
//! While such a call waits, its mask alone says who may end it. Once it has travelled, the kernel of the new place knows
//! the thread's own mask only, and would end the call by a signal that it keeps out. Natively such a signal
//! comes after the call or, when something interrupts that, between two issues of it: it never ends one.

use super::restarts;
use armento_abi::{Fault, Mem};
use armento_model::Tid;
use armento_tracee::inject::bit;
use armento_tracee::trace::{self, Regs, Status, Stop};
use armento_tracee::{status, sys};

/// A stop of ours that comes between is passed over; more are not expected.
const STOPS_MAX: usize = 16;

/// Memory of a stopped thread, to be read.
pub struct Memory(pub Tid);

impl Mem for Memory {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        match self.read_some(addr, buf) == buf.len() {
            true => Ok(()),
            false => Err(Fault),
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        sys::vm_read(self.0, addr, buf).unwrap_or(0)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault)
    }
}

/// The mask of the call that a thread is in, if it has one.
fn own(tid: Tid, r: &Regs) -> Option<u64> {
    armento_abi::read_mask(r.orig_rax, &trace::args(r), &mut Memory(tid)).ok()?
}

/// … that the kernel is about to issue again.
fn own_again(tid: Tid, r: &Regs) -> Option<u64> {
    restarts::interrupted(r).then(|| own(tid, r))?
}

/// Is a signal with a handler waiting for this stopped thread, so that an EINTR is its own?
pub fn signal_waits(tid: Tid) -> bool {
    let Ok(s) = status::read(tid) else {
        return false;
    };
    let waiting = (s.sig_pending | s.shared_pending) & s.caught;
    if waiting & !s.blocked == 0 {
        return false;
    }
    let cut = |r: &Regs| restarts::interrupted(r) || r.rax as i64 == -i64::from(libc::EINTR);
    let regs = trace::regs(tid).ok().filter(cut);
    let mask = regs.and_then(|r| own(tid, &r));
    waiting & !mask.unwrap_or(s.blocked) != 0
}

/// Leads a stopped thread back into its interrupted call: meanwhile signals that the call keeps out are blocked, at
/// its entry the thread has its own mask again. `None`: it is in no such call, or in a group stop, and stands where it stood. Else
/// what it was stopped by then, usually [`Stop::Call`]. Its end is left to who waits for it.
pub fn lead(tid: Tid) -> Option<Status> {
    let r = trace::regs(tid).ok()?;
    if trace::in_group_stop(tid) {
        return None;
    }
    let mask = own_again(tid, &r)?;
    let real = trace::sigmask(tid).ok()?;
    trace::set_sigmask(tid, real | mask).ok()?;
    let mut at = None;
    for _ in 0..STOPS_MAX {
        at = trace::resume_to_call(tid, 0)
            .and_then(|()| trace::wait_stop(tid))
            .ok();
        if !matches!(at, Some(Status::Stopped(Stop::Trap | Stop::Event(_)))) {
            break;
        }
    }
    // One that died needs nothing.
    let _ = trace::set_sigmask(tid, real);
    at
}

/// A signal that its call keeps out is about to be delivered to a stopped thread: the call is issued after it.
pub fn deliver_before(tid: Tid, sig: i32) {
    let Ok(mut r) = trace::regs(tid) else { return };
    if own_again(tid, &r).is_some_and(|mask| mask & bit(sig) != 0) {
        restarts::begin_anew(&mut r);
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(tid, &r);
    }
}
