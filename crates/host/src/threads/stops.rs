//! What a guest's threads report to the tracer thread: stops, signals, ends.
//!
//! Signals: those with a handler are delivered here; the default action of the others is home's decision (it may kill,
//! stop, or be ignored in an orphaned group), so the thread waits for it.

use super::{ends, futex_waits, halt, resume, sigtimedwait, timer_signals};
use crate::state::{Body, GuestTable, Original};
use crate::sync::lock;
use armento_migrate::stop_threads::{Halted, without_effect};
use armento_model::{HomePid, HomeTid, Tid};
use armento_tracee::call::bit;
use armento_tracee::status;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Status, Stop, Stopped};
use armento_wire::talk::{Signal, ToHome};

/// A traced thread reported.
pub fn report(guests: &mut GuestTable, here: Tid, status: Status) {
    match status {
        Status::Exited(code) => ends::ended(guests, here, code, None),
        Status::Killed(sig) => ends::ended(guests, here, 0, Some(sig)),
        Status::Stopped(stopped, Stop::Signal(sig)) => at_signal(guests, stopped, sig),
        Status::Stopped(stopped, Stop::Trap | Stop::Group(_)) => at_trap(guests, stopped),
        Status::Stopped(stopped, Stop::Call) => {
            let other = match guests.shared.threads.here(here) {
                Some(thread) => futex_waits::at_call(guests, &thread, stopped),
                None => Some(stopped),
            };
            if let Some(stopped) = other {
                sigtimedwait::at_call(guests, stopped);
            }
        }
        Status::Stopped(stopped, Stop::Event(_)) => drop(trace::resume(stopped, 0)),
        Status::Continued => {}
    }
}

/// A stopped thread goes on; on its way it may stop at something else.
fn go_on(guests: &mut GuestTable, stopped: Stopped) {
    let here = stopped.tid();
    if let Some(other) = resume::go_on(stopped) {
        report(guests, here, other);
    }
}

/// A thread stopped by the tracer's interruption, or for the first time.
fn at_trap(guests: &mut GuestTable, stopped: Stopped) {
    let here = stopped.tid();
    let shared = guests.shared.clone();
    resume::unsent(guests, here);
    let Some((body, tid)) = guests.thread(here) else {
        return;
    };
    let stays = body.proc.frozen() || body.stopped;
    let Some(traced) = body.threads.get_mut(&tid) else {
        return;
    };
    lock(&traced.thread.call).sigwait = None;
    futex_waits::interrupted(&traced.thread);
    if stays {
        traced.halted = Some(Halted {
            thread: stopped,
            signal: None,
        });
        halt::notify_move(&shared, body);
    } else {
        resume::lift_mask(&traced.thread);
        go_on(guests, stopped);
    }
}

/// A signal is about to be delivered in a guest.
fn at_signal(guests: &mut GuestTable, stopped: Stopped, sig: i32) {
    let here = stopped.tid();
    let shared = guests.shared.clone();
    resume::unsent(guests, here);
    let Ok(mut info) = trace::siginfo(here) else {
        return;
    };
    match guests.cookies.take(&info) {
        Some(Original::Info(real)) => {
            info = real;
            let _ = trace::set_siginfo(here, &info);
        }
        Some(Original::Void) => return at_trap(guests, stopped),
        None => {}
    }
    let Some((body, tid)) = guests.thread(here) else {
        return;
    };
    // A wait that was about to begin, traced, will be issued again: it is traced anew.
    if let Some(traced) = body.threads.get(&tid) {
        lock(&traced.thread.call).sigwait = None;
        futex_waits::interrupted(&traced.thread);
    }
    if body.proc.frozen() || body.stopped {
        // It travels, or waits for SIGCONT, with the thread.
        if let Some(traced) = body.threads.get_mut(&tid) {
            traced.halted = Some(Halted {
                thread: stopped,
                signal: Some((sig, info)),
            });
            halt::notify_move(&shared, body);
        }
        return;
    }
    settle(guests, stopped, sig, info);
}

/// Delivers, drops, or asks home.
fn settle(guests: &mut GuestTable, stopped: Stopped, sig: i32, info: SigInfo) {
    let here = stopped.tid();
    let shared = guests.shared.clone();
    let st = status::read(here).unwrap_or_default();
    let Some((body, _)) = guests.thread(here) else {
        return;
    };
    let pid = body.pid;
    let foreign = body.vdso.clone().filter(|_| st.caught & bit(sig) != 0);
    if let Some(foreign) = foreign {
        foreign.before_handler(guests.allowlist(), here, &info);
    }
    let Some((body, tid)) = guests.thread(here) else {
        return;
    };
    let Some(traced) = body.threads.get_mut(&tid) else {
        return;
    };
    if st.caught & bit(sig) != 0 {
        timer_signals::delivered(&body.proc, &info);
        resume::deliver(&traced.thread, stopped, sig);
    } else if without_effect(&st) & bit(sig) != 0 {
        let _ = trace::resume(stopped, 0);
    } else {
        traced.halted = Some(Halted {
            thread: stopped,
            signal: Some((sig, info)),
        });
        traced.asking = true;
        let away = body.proc.cpu_away();
        shared.home.send(&ToHome::Default {
            pid,
            tid,
            sig,
            info: Signal(info.to_vec()),
            away,
        });
    }
}

/// Home has taken the default action, or ignored the signal; `stopped`: it stopped the process.
pub fn default_taken(guests: &mut GuestTable, pid: HomePid, tid: HomeTid, stopped: bool) {
    let Some(body) = guests.bodies.get_mut(&pid) else {
        return;
    };
    let Some(traced) = body.threads.get_mut(&tid) else {
        return;
    };
    traced.asking = false;
    if let Some(h) = traced.halted.as_mut() {
        h.signal = None;
    }
    if stopped {
        stop(body);
    } else {
        run_on(guests, pid);
    }
}

/// Home recalls the process for the default action (a core dump): the signal travels with its thread.
pub fn dumps_at_home(guests: &mut GuestTable, pid: HomePid, tid: HomeTid) {
    let body = guests.bodies.get_mut(&pid);
    if let Some(traced) = body.and_then(|b| b.threads.get_mut(&tid)) {
        traced.asking = false;
    }
}

fn stop(body: &mut Body) {
    body.stopped = true;
    for traced in body.threads.values().filter(|t| t.halted.is_none()) {
        let _ = trace::interrupt(traced.thread.here);
    }
}

/// SIGCONT.
pub fn continued(guests: &mut GuestTable, pid: HomePid) {
    if let Some(body) = guests.bodies.get_mut(&pid) {
        body.stopped = false;
    }
    run_on(guests, pid);
}

/// The end of a stop or a freeze: every halted thread goes on, with the signal it stopped at.
pub fn run_on(guests: &mut GuestTable, pid: HomePid) {
    let Some(body) = guests.bodies.get_mut(&pid) else {
        return;
    };
    // Not thawed yet, or stopped.
    if body.quiet || body.stopped || body.proc.frozen() {
        return;
    }
    let (mut signals, mut others) = (Vec::new(), Vec::new());
    for traced in body.threads.values_mut().filter(|t| !t.asking) {
        match traced.halted.take() {
            Some(Halted {
                thread,
                signal: Some((sig, info)),
            }) => signals.push((thread, sig, info)),
            Some(h) => {
                resume::lift_mask(&traced.thread);
                others.push(h.thread);
            }
            None => {}
        }
    }
    for stopped in others {
        go_on(guests, stopped);
    }
    for (stopped, sig, info) in signals {
        // Injected calls came between, or a timer expired again: the kernel has other siginfo for this stop by now.
        let _ = trace::set_siginfo(stopped.tid(), &info);
        settle(guests, stopped, sig, info);
    }
}
