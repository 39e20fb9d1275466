//! FUTEX_WAIT with a timeout, in a body: its kernel makes it, and until when it lasts is noted for the next move. One that has
//! come in its midst is led into the kernel with what is left of its time.
//!
//! From: `serve.rs`. Next: the guest's kernel.
//!
//! ```text
//! notified ──came with a time──► issued again under our lead ──entry──► its timeout is ours ──interrupted, or its end──► its own
//! ```

use crate::state::guests::Zoo;
use crate::state::shared::{Cell, CellState, Shared, lock};
use armento_migrate::image::{ThreadState, futex_wait, thread};
use armento_tracee::notify::Notice;
use armento_tracee::sys as tsys;
use armento_tracee::trace::{self, Regs};
use std::sync::Arc;

/// Below the stack pointer and its red zone: what lies there is lost at the next signal, natively too. PAPER: System V ABI for
/// x86-64, 3.2.2.
const BELOW: u64 = 512;

/// What is known of a thread's timed wait. Times are home's CLOCK_MONOTONIC, nanoseconds.
#[derive(Default)]
pub struct FutexWait {
    /// Of the call that was made last.
    until: Option<u64>,
    /// It came in the midst of one, which it is about to issue again: until when, the futex, and where its timeout is.
    came: Option<(u64, u64, u64)>,
    /// One is led into the kernel.
    led: Option<Led>,
}

#[derive(Clone, Copy)]
struct Led {
    until: u64,
    /// Where the program's own timeout is, once ours has taken its place.
    own: Option<u64>,
}

impl Shared {
    fn home_now(&self) -> u64 {
        let here = tsys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default();
        here.saturating_add_signed(self.clock_ahead)
    }
}

/// A thread has come, with these registers.
pub fn came(st: &mut CellState, t: &ThreadState, regs: &Regs) {
    st.futex_wait = FutexWait {
        came: t
            .until
            .filter(|_| futex_wait::begins(regs))
            .map(|until| (until, regs.rdi, regs.r10)),
        ..FutexWait::default()
    };
}

/// A thread is about to make such a call.
pub fn begin(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let mut st = lock(&cell.st);
    let wait = &mut st.futex_wait;
    if wait.led.is_none() {
        let same = |(_, futex, at): &(u64, u64, u64)| (*futex, *at) == (n.args[0], n.args[3]);
        if let Some((until, ..)) = wait.came.take().filter(same) {
            wait.led = Some(Led { until, own: None });
            drop(st);
            let (cell, id) = (cell.clone(), n.id);
            return sh.hand.post(move |zoo| lead(zoo, &cell, id));
        }
        let asked =
            futex_wait::asked(cell.here, n.args[3]).and_then(|d| d.as_nanos().try_into().ok());
        wait.until = asked.map(|ns: u64| sh.home_now().saturating_add(ns));
    }
    drop(st);
    sh.listener.let_through(n.id);
}

fn lead(zoo: &mut Zoo, cell: &Arc<Cell>, id: u64) {
    match crate::calls::fork::break_out(zoo, cell, id) {
        Ok(h) => {
            drop(h);
            let _ = trace::resume_to_call(cell.here, 0);
        }
        Err(e) => eprintln!("futex of {}: {e}", cell.tid),
    }
}

/// Entry or exit of a call that is led. False: none of ours.
pub fn at_call(zoo: &Zoo, cell: &Cell) -> bool {
    let mut st = lock(&cell.st);
    let wait = &mut st.futex_wait;
    let Some(led) = &mut wait.led else {
        return false;
    };
    if led.own.is_some() {
        end(wait, cell);
        let _ = trace::resume(cell.here, 0);
        return true;
    }
    let left = futex_wait::left(led.until, zoo.sh().home_now());
    if let Ok(mut r) = trace::regs(cell.here) {
        let at = r.rsp.wrapping_sub(BELOW) & !15;
        led.own = Some(r.r10);
        // Where nothing can be written it waits anew.
        if cell.write(at, &futex_wait::spec(left)) {
            r.r10 = at;
            wait.until = Some(led.until);
            let _ = trace::set_regs(cell.here, &r);
        }
    }
    let _ = trace::resume_to_call(cell.here, 0);
    true
}

/// A led call is over, or sleeps and will be continued by the kernel: its timeout is the program's own again.
fn end(wait: &mut FutexWait, cell: &Cell) {
    let own = wait.led.take().and_then(|led| led.own);
    if let (Some(own), Ok(mut r)) = (own, trace::regs(cell.here)) {
        r.r10 = own;
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(cell.here, &r);
    }
}

/// A thread has stopped otherwise.
pub fn interrupted(cell: &Cell) {
    let mut st = lock(&cell.st);
    let wait = &mut st.futex_wait;
    let Some(led) = wait.led else { return };
    end(wait, cell);
    let Ok(r) = trace::regs(cell.here) else {
        return;
    };
    if r.rax as i64 != thread::ERESTART_RESTARTBLOCK {
        // It was not made yet, and is issued again.
        wait.came = Some((led.until, r.rdi, r.r10));
    }
}

/// A thread travels: until when its call lasts.
pub fn leaves(st: &CellState, t: &mut ThreadState) {
    let wait = &st.futex_wait;
    let came = wait.came.map(|(until, ..)| until);
    let not_made = came.or(wait.led.map(|l| l.until));
    if not_made.is_some() && t.again && t.number() == libc::SYS_futex {
        t.begin_anew(libc::SYS_futex);
    }
    t.until = not_made.or(wait.until).filter(|_| futex_wait::travels(t));
}
