//! POSIX timers run at home; how many expirations a signal of theirs stands for is settled where it is taken.

use crate::calls::forward;
use crate::state::guests::Zoo;
use crate::state::shared::{Cell, Fix, Proc, Shared, lock};
use armento_migrate::image::timers::{absorb, overrun as overrun_of, timer_of};
use armento_model::Pid;
use armento_tracee::inject::bit;
use armento_tracee::notify::Notice;
use armento_tracee::sys::SigInfo;
use armento_tracee::{status, sys};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a call on a timer means to the signals that wait here.
pub fn fix(n: &Notice) -> Fix {
    let timer = n.args[0] as i32;
    match i64::from(n.nr) {
        libc::SYS_timer_getoverrun => Fix::Overrun(timer),
        libc::SYS_timer_delete => Fix::TimerGone(timer),
        _ => Fix::None,
    }
}

/// A timer of CPU time runs here; home has the other.
pub fn set_itimer(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    if n.args[0] == libc::ITIMER_REAL as u64 {
        return forward::send(sh, cell, n);
    }
    let mut raw = [0u8; 32];
    let new = matches!(sys::vm_read(cell.here, n.args[1], &mut raw), Ok(32));
    if new && raw[16..] != [0; 16] {
        cell.proc.cpu_timer.store(true, Ordering::Release);
    }
    sh.listener.let_through(n.id);
}

/// A signal reaches the program.
pub fn delivered(proc: &Proc, info: &SigInfo) {
    if let Some(timer) = timer_of(info) {
        lock(&proc.overruns).insert(timer, overrun_of(info));
    }
}

pub fn overrun(proc: &Proc, timer: i32) -> i64 {
    lock(&proc.overruns)
        .get(&timer)
        .copied()
        .unwrap_or(0)
        .into()
}

/// A timer was set anew or deleted: what it sent before came on the same stream before we heard of it.
pub fn set(zoo: &mut Zoo, pid: Pid, timer: i32) {
    if let Some(b) = zoo.bodies.get(&pid) {
        lock(&b.proc.overruns).remove(&timer);
    }
    zoo.veils.void(pid, timer);
}

/// Does a signal of the same timer wait here already? It stands for this one, too.
pub fn absorbed(zoo: &mut Zoo, pid: Pid, later: &SigInfo) -> bool {
    let Some(timer) = timer_of(later) else {
        return false;
    };
    let Some(body) = zoo.bodies.get_mut(&pid) else {
        return false;
    };
    // In the hand, at a stop: with its thread it waits for SIGCONT, or travels.
    let mut stopped = body
        .threads
        .values_mut()
        .filter(|t| !t.asking)
        .filter_map(|t| t.halted.as_mut()?.signal.as_mut());
    if let Some((_, first)) = stopped.find(|(_, i)| timer_of(i) == Some(timer)) {
        absorb(first, later);
        return true;
    }
    let Some((to, sig)) = zoo.veils.waits(pid, timer) else {
        return false;
    };
    let thread = to.and_then(|t| body.threads.get(&t)).map(|t| t.cell.here);
    let pending = status::read(thread.unwrap_or(body.here)).map_or(0, |s| match to {
        Some(_) => s.sig_pending,
        None => s.shared_pending,
    });
    if pending & bit(sig) == 0 {
        // Thrown away: the program ignored it for a while.
        return false;
    }
    zoo.veils.absorb(pid, timer, later);
    true
}
