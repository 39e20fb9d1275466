//! Signals of POSIX timers, which run at home: the overrun count of a signal is settled where it is taken.

use crate::state::{GuestTable, Process};
use crate::sync::lock;
use armento_migrate::image::timers::{absorb, overrun as overrun_of, timer_of};
use armento_model::HomePid;
use armento_tracee::call::bit;
use armento_tracee::status;
use armento_tracee::sys::SigInfo;

/// A signal is delivered to the program.
pub fn delivered(proc: &Process, info: &SigInfo) {
    if let Some(timer) = timer_of(info) {
        lock(&proc.overruns).insert(timer, overrun_of(info));
    }
}

pub fn overrun(proc: &Process, timer: i32) -> i64 {
    lock(&proc.overruns)
        .get(&timer)
        .copied()
        .unwrap_or(0)
        .into()
}

/// A timer was set anew or deleted. Its earlier signals came before on the same stream.
pub fn timer_was_set(guests: &mut GuestTable, pid: HomePid, timer: i32) {
    if let Some(b) = guests.bodies.get(&pid) {
        lock(&b.proc.overruns).remove(&timer);
    }
    guests.cookies.void(pid, timer);
}

/// Is a signal of the same timer pending here already? It stands for this one, too.
pub fn absorbed(guests: &mut GuestTable, pid: HomePid, later: &SigInfo) -> bool {
    let Some(timer) = timer_of(later) else {
        return false;
    };
    let Some(body) = guests.bodies.get_mut(&pid) else {
        return false;
    };
    // Held at a stop: with its thread it waits for SIGCONT, or travels.
    let mut stopped = body
        .threads
        .values_mut()
        .filter(|t| !t.asking)
        .filter_map(|t| t.halted.as_mut()?.signal.as_mut());
    if let Some((_, first)) = stopped.find(|(_, i)| timer_of(i) == Some(timer)) {
        absorb(first, later);
        return true;
    }
    let Some((to, sig)) = guests.cookies.pending(pid, timer) else {
        return false;
    };
    let thread = to.and_then(|t| body.threads.get(&t)).map(|t| t.thread.here);
    let pending = status::read(thread.unwrap_or(body.here)).map_or(0, |s| match to {
        Some(_) => s.sig_pending,
        None => s.shared_pending,
    });
    if pending & bit(sig) == 0 {
        // Discarded: the program ignored it for a while.
        return false;
    }
    guests.cookies.absorb(pid, timer, later);
    true
}
