//! Processes at home that sleep by the CPU clock of another: that one runs at home, for its deputy is idle.
//!
//! From: `keeper/src/events/dispatch.rs`, `keeper/src/moves/eligibility.rs`. Next: `keeper/src/moves/come_home.rs`.

use crate::state::Keep;
use armento_abi::{CpuClock, cpu_clock};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay, Tid};
use armento_tracee::status;
use armento_tracee::timers::sleeps_by_cpu_time;

/// The process by whose CPU clock a thread sleeps, at home. KERNEL: proc_pid_syscall(5).
fn sleeps_by(pid: Pid, tid: Tid) -> Option<Pid> {
    let (nr, args) = status::call(pid, tid)?;
    match cpu_clock(args[0] as i32, pid, tid).filter(|_| sleeps_by_cpu_time(nr, &args))? {
        CpuClock::Process(whose) => Some(whose),
        CpuClock::Thread(_) => None,
    }
}

/// Threads that are asked at a time what they sleep by: in larger trees such a sleep may be too long.
const SLEEPERS_MAX: usize = 64;

/// Processes that sleep by a CPU clock of another, with that process. Only home knows such sleeps.
fn sleepers(keep: &Keep) -> impl Iterator<Item = (Pid, Pid)> + use<> {
    let away: Vec<Pid> = keep.deputies.pids();
    let home = keep.pids().into_iter().filter(move |p| !away.contains(p));
    let threads = |p: Pid| status::threads(p).unwrap_or_default();
    home.flat_map(move |p| threads(p).into_iter().map(move |t| (p, t)))
        .take(SLEEPERS_MAX)
        .filter_map(|(p, t)| Some((p, sleeps_by(p, t)?)))
}

/// A process whose CPU clock is slept by, and that is away, comes home.
pub fn watch_cpu_sleepers(keep: &Keep) {
    if keep.deputies.pids().is_empty() {
        return;
    }
    for (by, whose) in sleepers(keep) {
        if let Some(d) = keep.deputy(whose)
            && !keep.move_queue.is_called_home(d.pid)
        {
            keep.move_queue.come_first(d.pid, by);
        }
    }
}

/// No process of the tree sleeps by the CPU clock of `pid`.
pub fn not_awaited(keep: &Keep, pid: Pid) -> Result<()> {
    let Some((by, _)) = sleepers(keep).find(|(_, whose)| *whose == pid) else {
        return Ok(());
    };
    let name = status::comm(by, by);
    let why = format!("process {by} ({name}) sleeps by its CPU clock");
    Err(MigrateError::Stays(Stay::UnsupportedCall, why))
}
