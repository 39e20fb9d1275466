//! Calls that a thread at home goes on with under our eyes until they have ended.
//!
//! After a stop the kernel goes on with most calls by itself, as if nothing had been. Not with these: what
//! the stop did to them would show.
//!
//! ```text
//! stopped ──begin──► (entry) ──► in the call ──► exit: its result is set right ──► let go
//! ```

use crate::image::thread;
use crate::stop::signal_waits;
use armento_model::Tid;
use armento_tracee::inject::bit;
use armento_tracee::trace::{self, Regs};
use armento_tracee::{Stop, status};

/// A call that is led to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Led {
    /// It slept on an object that may be removed before it is there again.
    Removable { nr: u64 },
}

/// What a led thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on to the next entry or exit of a call: with this signal.
    On(i32),
    /// It needs us no more: it goes on with this signal.
    Free(i32),
}

/// KERNEL: what rax holds at the entry of a call, x86-64.
const AT_ENTRY: i64 = -(libc::ENOSYS as i64);
const EINTR: i64 = -(libc::EINTR as i64);

/// Before: stopped by us, settled (see `thread::settle_stopped`), no signal to be delivered.
pub fn of(tid: Tid) -> Option<Led> {
    let r = trace::regs(tid).ok()?;
    let slept = r.rax as i64 == thread::ERESTARTNOHAND;
    (slept && armento_abi::removable(r.orig_rax)).then_some(Led::Removable { nr: r.orig_rax })
}

impl Led {
    /// After: the thread runs, to the entry of its call.
    pub fn begin(&mut self, tid: Tid) -> trace::Result<()> {
        trace::resume_to_call(tid, 0)
    }

    /// A led thread stopped.
    pub fn at_stop(&mut self, tid: Tid, stop: Stop) -> trace::Result<Then> {
        Ok(match stop {
            Stop::Call => self.at_call(tid)?,
            // A handler ends its call: EINTR.
            Stop::Signal(sig) if catches(tid, sig) => Then::Free(sig),
            Stop::Signal(sig) => Then::On(sig),
            _ => Then::On(0),
        })
    }

    fn at_call(&mut self, tid: Tid) -> trace::Result<Then> {
        let Led::Removable { nr } = *self;
        let mut r = trace::regs(tid)?;
        let ret = r.rax as i64;
        if r.orig_rax != nr {
            return Ok(Then::Free(0));
        }
        if ret == AT_ENTRY {
            return Ok(Then::On(0));
        }
        if by_tracing(tid, &r) {
            r.rax = thread::ERESTARTNOHAND as u64;
            trace::set_regs(tid, &r)?;
            return Ok(Then::On(0));
        }
        r.rax = armento_abi::begun_again(nr, ret) as u64;
        trace::set_regs(tid, &r)?;
        Ok(Then::Free(0))
    }
}

/// Was the call interrupted only because we trace it? Ignored signals wake nobody else; our own stops come
/// next. A signal that stops the process ends some calls, natively too.
fn by_tracing(tid: Tid, r: &Regs) -> bool {
    thread::interrupted(r) || r.rax as i64 == EINTR && !signal_waits(tid) && !stop_waits(tid)
}

fn stop_waits(tid: Tid) -> bool {
    let stops = bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);
    status::read(tid)
        .is_ok_and(|s| (s.sig_pending | s.shared_pending) & !s.blocked & !s.ignored & stops != 0)
}

fn catches(tid: Tid, sig: i32) -> bool {
    status::read(tid).is_ok_and(|s| s.caught & bit(sig) != 0)
}
