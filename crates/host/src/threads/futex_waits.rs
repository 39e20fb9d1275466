//! FUTEX_WAIT with a timeout: the kernel of the body runs it, and its deadline is noted for the next move. A thread that
//! has arrived in the midst of one issues it again, with the time that is left.
//!
//! From: `host/src/calls/dispatch.rs`. Next: the guest's kernel.
//!
//! ```text
//! notified ──arrived with a deadline──► issued again, traced ──entry──► timeout replaced ──interrupted or over──► its own
//! ```

use super::interrupt_call;
use crate::state::{CallState, FutexWait, GuestTable, GuestThread, Host, Interrupted, Replaced};
use crate::sync::lock;
use armento_migrate::image::restarts;
use armento_migrate::image::{ThreadState, futex_wait};
use armento_tracee::notify::Notice;
use armento_tracee::trace::{self, Regs, Stopped};
use std::sync::Arc;

/// Below the stack pointer and its red zone: what lies there is lost at the next signal, natively too. PAPER: System V
/// ABI for x86-64, 3.2.2.
const BELOW: u64 = 512;

/// A thread has arrived, with these registers.
pub fn futex_came(st: &mut CallState, t: &ThreadState, regs: &Regs) {
    st.futex_wait = FutexWait {
        came: t
            .until
            .filter(|_| futex_wait::begins(regs))
            .map(|until| Interrupted {
                until,
                futex: regs.rdi,
                timeout_at: regs.r10,
            }),
        ..FutexWait::default()
    };
}

/// A thread is about to call futex.
pub fn futex_wait_begins(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let mut st = lock(&thread.call);
    let wait = &mut st.futex_wait;
    if wait.replaced.is_none() {
        let same = |i: &Interrupted| (i.futex, i.timeout_at) == (n.args[0], n.args[3]);
        if let Some(Interrupted { until, .. }) = wait.came.take().filter(same) {
            wait.replaced = Some(Replaced { until, own: None });
            drop(st);
            let (thread, id) = (thread.clone(), n.id);
            return host
                .tracer
                .post(move |guests| trace_wait(guests, &thread, id));
        }
        let asked =
            futex_wait::asked(thread.here, n.args[3]).and_then(|d| d.as_nanos().try_into().ok());
        wait.until = asked.map(|ns: u64| host.home_now().saturating_add(ns));
    }
    drop(st);
    host.listener.let_through(n.id);
}

fn trace_wait(guests: &mut GuestTable, thread: &Arc<GuestThread>, id: u64) {
    match interrupt_call::break_out(guests, thread, id) {
        Ok((stopped, h)) => {
            drop(h);
            let _ = trace::resume_to_call(stopped, 0);
        }
        Err(e) => eprintln!("futex of {}: {e}", thread.tid),
    }
}

/// Entry or exit of a traced call. Returns the thread, stopped as before, if it is in none.
pub fn at_call(guests: &GuestTable, thread: &GuestThread, stopped: Stopped) -> Option<Stopped> {
    let mut st = lock(&thread.call);
    let wait = &mut st.futex_wait;
    let Some(replaced) = &mut wait.replaced else {
        return Some(stopped);
    };
    if replaced.own.is_some() {
        end(wait, thread);
        let _ = trace::resume(stopped, 0);
        return None;
    }
    let left = futex_wait::left(replaced.until, guests.shared.home_now());
    if let Ok(mut r) = trace::regs(thread.here) {
        let at = r.rsp.wrapping_sub(BELOW) & !15;
        replaced.own = Some(r.r10);
        // Where nothing can be written it waits for the full time.
        if thread.write(at, &futex_wait::spec(left)) {
            r.r10 = at;
            wait.until = Some(replaced.until);
            let _ = trace::set_regs(thread.here, &r);
        }
    }
    let _ = trace::resume_to_call(stopped, 0);
    None
}

/// A traced call is over, or sleeps and will be continued by the kernel: its timeout is the program's own again.
fn end(wait: &mut FutexWait, thread: &GuestThread) {
    let own = wait.replaced.take().and_then(|r| r.own);
    if let (Some(own), Ok(mut r)) = (own, trace::regs(thread.here)) {
        r.r10 = own;
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(thread.here, &r);
    }
}

/// A thread has stopped at something else.
pub fn interrupted(thread: &GuestThread) {
    let mut st = lock(&thread.call);
    let wait = &mut st.futex_wait;
    let Some(replaced) = wait.replaced else {
        return;
    };
    end(wait, thread);
    let Ok(r) = trace::regs(thread.here) else {
        return;
    };
    if r.rax as i64 != restarts::ERESTART_RESTARTBLOCK {
        // It was not made yet, and is issued again.
        wait.came = Some(Interrupted {
            until: replaced.until,
            futex: r.rdi,
            timeout_at: r.r10,
        });
    }
}

/// A thread departs: sets the deadline of its call.
pub fn futex_travels(st: &CallState, t: &mut ThreadState) {
    let wait = &st.futex_wait;
    let came = wait.came.map(|i| i.until);
    let not_made = came.or(wait.replaced.map(|r| r.until));
    if not_made.is_some() && t.again && t.number() == libc::SYS_futex {
        t.begin_anew(libc::SYS_futex);
    }
    t.until = not_made.or(wait.until).filter(|_| futex_wait::travels(t));
}
