//! Restores the ignored SIGTRAP of a program, which our own traps reset.
//!
//! From: `inject.rs`. Next: nothing.
//!
//! KERNEL: a trap that is forced on a thread that ignores SIGTRAP resets SIGTRAP to its default action, which ends the
//! program (force_sig_info_to_task, kernel/signal.c). So the last thing that a held thread does is to ignore it again,
//! by calls that end in system-call stops, which force no signal.

use crate::call::{aim, bit, vdso_syscall};
use crate::status;
use crate::sys::{self, SigInfo};
use crate::trace::{self, Regs, Result, Status, Stop, Stopped, TraceError};
use armento_model::Tid;

/// KERNEL: struct kernel_sigaction on x86-64: handler, flags, restorer, mask.
const ACTION: usize = 32;
/// sizeof(sigset_t) of the kernel.
const SIGSET: u64 = 8;
/// Below the part of the stack that a function without a frame may use (System V ABI, 3.2.2), aligned.
const BELOW_STACK: u64 = 512;
/// Stops at the start and the end of a call, and a few others between.
const STOPS_MAX: usize = 16;

/// Whether it ignores SIGTRAP.
pub fn ignored(tid: Tid) -> bool {
    status::read(tid).is_ok_and(|s| s.ignored & bit(libc::SIGTRAP) != 0)
}

/// Makes it ignore SIGTRAP again. `r` are its registers; it is left with others. `scratch`: memory of ours, possibly
/// unmapped by now: then memory below its stack is used and restored. Stray signals go to `sent`.
pub fn ignore_again(
    tid: Tid,
    r: &Regs,
    scratch: Option<u64>,
    sent: &mut Vec<SigInfo>,
) -> Result<()> {
    let gate = vdso_syscall(tid)?.0;
    let below = r.rsp.wrapping_sub(BELOW_STACK) & !15;
    let places = scratch.into_iter().chain([below]);
    let done = places
        .map(|at| ignore_at(tid, r, (gate, at), sent))
        .find(|done| !matches!(done, Ok(false)));
    to_boundary(tid, sent)?;
    match done {
        Some(done) => done.map(drop),
        None => Err(TraceError::Odd(format!("no room for an action of {tid}"))),
    }
}

/// The flags and the mask of the action are kept, and the memory at `at` is restored. `false`: that memory cannot be
/// used.
fn ignore_at(tid: Tid, r: &Regs, (gate, at): (u64, u64), sent: &mut Vec<SigInfo>) -> Result<bool> {
    let mut before = [0u8; ACTION];
    if !sys::vm_read(tid, at, &mut before).is_ok_and(|n| n == ACTION) {
        return Ok(false);
    }
    let ignore = (libc::SIG_IGN as u64).to_le_bytes();
    let old = call(tid, r, gate, [0, at], sent)?;
    let set = match old == 0 && sys::vm_write(tid, at, &ignore).is_ok() {
        true => call(tid, r, gate, [at, 0], sent),
        false => Ok(-i64::from(libc::EFAULT)),
    };
    // If the write failed, nothing has changed.
    let _ = sys::vm_write(tid, at, &before);
    Ok(set? == 0)
}

/// rt_sigaction(2) of SIGTRAP with these two addresses: the new action, and where the old one is stored.
fn call(tid: Tid, r: &Regs, gate: u64, a: [u64; 2], sent: &mut Vec<SigInfo>) -> Result<i64> {
    let args = [libc::SIGTRAP as u64, a[0], a[1], SIGSET, 0, 0];
    trace::set_regs(tid, &aim(r, gate, libc::SYS_rt_sigaction, args))?;
    let mut begun = false;
    let mut thread = Stopped::held(tid);
    for _ in 0..STOPS_MAX {
        trace::resume_to_call(thread, 0)?;
        let stop;
        (thread, stop) = next_stop(tid)?;
        match stop {
            Stop::Call if begun => return Ok(trace::regs(tid)?.rax as i64),
            Stop::Call => begun = true,
            Stop::Signal(_) => sent.push(trace::siginfo(tid)?),
            _ => {}
        }
    }
    Err(TraceError::Odd(format!("no end of a call in thread {tid}")))
}

/// The stop that is certain to come.
fn next_stop(tid: Tid) -> Result<(Stopped, Stop)> {
    loop {
        match trace::wait_certain(tid)? {
            Status::Stopped(thread, stop) => return Ok((thread, stop)),
            Status::Continued => {}
            Status::Exited(_) | Status::Killed(_) => return Err(TraceError::Gone(tid)),
        }
    }
}

/// Runs from the end of a call to a stop after which the kernel checks whether to restart the call: at the current
/// position it would return its internal restart errors to the program.
fn to_boundary(tid: Tid, sent: &mut Vec<SigInfo>) -> Result<()> {
    let mut thread = Stopped::held(tid);
    for _ in 0..STOPS_MAX {
        // Any stop cancels an earlier interrupt request.
        trace::interrupt(tid)?;
        trace::resume(thread, 0)?;
        let stop;
        (thread, stop) = next_stop(tid)?;
        match stop {
            Stop::Trap => return Ok(()),
            Stop::Signal(_) => sent.push(trace::siginfo(tid)?),
            _ => {}
        }
    }
    Err(TraceError::Odd(format!("thread {tid} does not stop")))
}
