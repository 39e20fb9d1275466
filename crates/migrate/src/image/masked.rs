//! Calls that wait with a signal mask of their own (ppoll, pselect, epoll_pwait), interrupted by a stop.
//!
//! From: `migrate/src/stop_threads.rs`, `thread.rs` and both sides of a move. Next: the kernel, which restarts the call or ends it by a
//! handler.
//!
//! While such a call waits, only its mask determines which signals end it. After a transfer the new kernel has only the
//! thread's own mask, and would end the call by a signal that the call's mask blocks. Without a move such a signal
//! comes after the call or, when something interrupts the call, between two issues of it: it never ends one.

use super::restarts;
use armento_abi::{Fault, Mem};
use armento_model::Tid;
use armento_tracee::call::bit;
use armento_tracee::trace::{self, Regs, Status, Stop, Stopped};
use armento_tracee::{status, sys};

/// An unrelated stop of ours is skipped; more are not expected.
const STOPS_MAX: usize = 16;

/// Read access to the memory of a stopped thread.
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

/// As [`own`], of the call that the kernel is about to restart.
fn own_again(tid: Tid, r: &Regs) -> Option<u64> {
    restarts::interrupted(r).then(|| own(tid, r))?
}

/// Whether a signal with a handler is pending for this stopped thread, so that an EINTR is genuine.
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

/// A thread after [`lead`].
pub enum Led {
    /// It is in no such call, or in a group stop, and was not moved.
    Still(Stopped),
    /// What it reported next: usually [`Stop::Call`]. `None`: it died; its end is not consumed.
    At(Option<Status>),
}

/// Lets a stopped thread re-enter its interrupted call with the signals blocked that the call's mask blocks; at the
/// call's entry the thread has its own mask again.
pub fn lead(mut thread: Stopped) -> Led {
    let tid = thread.tid();
    let Some(real) = block_as_call(tid) else {
        return Led::Still(thread);
    };
    let mut left = STOPS_MAX;
    let at = loop {
        let at = trace::resume_to_call(thread, 0).and_then(|()| trace::wait_stop(tid));
        left -= 1;
        match at {
            Ok(Status::Stopped(next, Stop::Trap | Stop::Event(_))) if left > 0 => thread = next,
            other => break other.ok(),
        }
    };
    // A dead thread needs no restore.
    let _ = trace::set_sigmask(tid, real);
    Led::At(at)
}

/// Blocks what the interrupted call of a thread blocks; returns the thread's own mask.
fn block_as_call(tid: Tid) -> Option<u64> {
    let r = trace::regs(tid).ok()?;
    if trace::in_group_stop(tid) {
        return None;
    }
    let mask = own_again(tid, &r)?;
    let real = trace::sigmask(tid).ok()?;
    trace::set_sigmask(tid, real | mask).ok()?;
    Some(real)
}

/// A signal that its call's mask blocks is about to be delivered to a stopped thread: the call is issued after it.
pub fn deliver_before(tid: Tid, sig: i32) {
    let Ok(mut r) = trace::regs(tid) else { return };
    if own_again(tid, &r).is_some_and(|mask| mask & bit(sig) != 0) {
        restarts::begin_anew(&mut r);
        // A thread that died meanwhile needs no change.
        let _ = trace::set_regs(tid, &r);
    }
}
