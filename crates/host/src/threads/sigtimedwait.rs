//! sigtimedwait and sigwaitinfo: traced to their end, for they take signals without a stop.
//!
//! From: `host/src/calls/dispatch.rs`. Next: `stops.rs`, when a signal has a handler.

use super::{interrupt_call, timer_signals};
use crate::state::{GuestTable, GuestThread, Original};
use crate::sync::lock;
use armento_migrate::image::restarts::{self, ERESTARTNOINTR};
use armento_model::Tid;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::trace::{self, Stopped};
use std::sync::Arc;

/// Traces a thread to the end of the call, where the siginfo it got is replaced by the original.
pub fn trace_sigwait(guests: &mut GuestTable, thread: &Arc<GuestThread>, id: u64, info: u64) {
    match interrupt_call::break_out(guests, thread, id) {
        Ok((stopped, h)) => {
            drop(h);
            lock(&thread.call).sigwait = Some((info, false));
            let _ = trace::resume_to_call(stopped, 0);
        }
        Err(e) => eprintln!("sigtimedwait of {}: {e}", thread.tid),
    }
}

/// Entry or exit of a traced call.
pub fn at_call(guests: &mut GuestTable, stopped: Stopped) {
    let here = stopped.tid();
    let Some(thread) = guests.shared.threads.here(here) else {
        return;
    };
    let mut st = lock(&thread.call);
    match st.sigwait {
        Some((info, false)) => {
            st.sigwait = Some((info, true));
            let _ = trace::resume_to_call(stopped, 0);
        }
        Some((at, true)) => {
            st.sigwait = None;
            drop(st);
            undo_eintr(here);
            if let Ok(sig @ 1..=64) = trace::regs(here).map(|r| r.rax) {
                took(guests, &thread, sig as i32, at);
            }
            let _ = trace::resume(stopped, 0);
        }
        None => drop(trace::resume(stopped, 0)),
    }
}

/// A traced wait has taken a signal. `at`: where its siginfo is, if the program wants it.
fn took(guests: &mut GuestTable, thread: &GuestThread, sig: i32, at: u64) {
    let mut info: SigInfo = [0; 128];
    let original = if at == 0 {
        guests.cookies.taken(thread.pid, thread.tid, sig)
    } else if matches!(sys::vm_read(thread.here, at, &mut info), Ok(128)) {
        guests.cookies.take(&info)
    } else {
        None
    };
    match original {
        Some(Original::Info(real)) => {
            timer_signals::delivered(&thread.proc, &real);
            if at != 0 {
                thread.write(at, &real);
            }
        }
        Some(Original::Void) => end_with(thread.here, ERESTARTNOINTR),
        None => {}
    }
}

/// An interrupted wait for signals ends only when a handler runs, which the kernel decides. Traced, it is woken even by
/// signals that are ignored.
fn undo_eintr(here: Tid) {
    if trace::regs(here).is_ok_and(|r| r.rax as i64 == -i64::from(libc::EINTR)) {
        end_with(here, restarts::ERESTARTNOHAND);
    }
}

/// At the exit of a call: it ends with one of the kernel's restart errors, which the kernel handles because
/// of the interruption.
fn end_with(here: Tid, ret: i64) {
    if let Ok(mut r) = trace::regs(here)
        && trace::interrupt(here).is_ok()
    {
        r.rax = ret as u64;
        let _ = trace::set_regs(here, &r);
    }
}
