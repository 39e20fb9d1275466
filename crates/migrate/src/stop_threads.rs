//! Stops every thread of a process and keeps it stopped.

use crate::image::masked::{self, Led};
use crate::image::thread;
use crate::{MigrateError, Result};
use armento_abi::sends;
use armento_model::{Pid, Stay, Tid};
use armento_tracee::status::ProcStatus;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Status, Stop, Stopped, TURN_MAX, TraceError};
use armento_tracee::{blocking, call, read_minimum, status, timers, yama};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for a thread that is not runnable to stop. Longer means vfork or a disk wait.
const STOP_MAX: Duration = Duration::from_millis(300);

/// Signals whose default action is to ignore them.
pub const DEFAULT_NOTHING: u64 = call::bit(libc::SIGCHLD)
    | call::bit(libc::SIGCONT)
    | call::bit(libc::SIGURG)
    | call::bit(libc::SIGWINCH);

/// The signals that currently have no effect on a process: it ignores them, or their default action does.
pub fn without_effect(s: &ProcStatus) -> u64 {
    s.ignored | DEFAULT_NOTHING & !s.caught
}

/// A thread in a ptrace stop.
#[derive(Debug)]
pub struct Halted {
    pub thread: Stopped,
    /// It stopped at this signal, which has not been delivered yet.
    pub signal: Option<(i32, SigInfo)>,
}

impl Halted {
    pub fn tid(&self) -> Tid {
        self.thread.tid()
    }

    /// Returns the thread with the signal with which to resume it, unless it died. It is at the entry of its call then,
    /// if that waits with a mask of its own, or in a group stop. Injected calls in between have made the stop lose its
    /// signal.
    pub fn deliver(self) -> Option<(Stopped, i32)> {
        let Some((sig, info)) = self.signal else {
            return match masked::lead(self.thread) {
                Led::Still(thread) => Some((thread, 0)),
                Led::At(Some(Status::Stopped(thread, Stop::Signal(sig)))) => Some((thread, sig)),
                Led::At(Some(Status::Stopped(thread, _))) => Some((thread, 0)),
                Led::At(_) => None,
            };
        };
        let _ = trace::set_siginfo(self.tid(), &info);
        masked::deliver_before(self.tid(), sig);
        Some((self.thread, sig))
    }

    /// Resumes it with `resume`; one in a group stop remains stopped, and its end is reported.
    pub fn go(self, resume: impl FnOnce(Stopped, i32) -> trace::Result<()>) -> trace::Result<()> {
        let tid = self.tid();
        let (thread, sig) = self.deliver().ok_or(TraceError::Gone(tid))?;
        if trace::in_group_stop(tid) {
            trace::listen(thread)
        } else {
            resume(thread, sig)
        }
    }
}

/// Called at the entry and at the end of a call: true if its end is to be reported.
pub type Calls = Arc<dyn Fn(Tid) -> bool + Send + Sync>;

/// A seized process: which threads are seized, which of them are stopped.
pub struct StoppedThreads {
    pub pid: Pid,
    pub seized: BTreeSet<Tid>,
    pub halted: Vec<Halted>,
    /// Decides about threads that stop at calls.
    pub calls: Option<Calls>,
}

/// A thread in a system call, in which most threads sleep.
#[derive(Clone, Copy, Debug)]
pub struct InCall {
    pub tid: Tid,
    pub nr: i64,
    pub args: [u64; 6],
}

/// Fails if a thread is in a call that a stop would change irreversibly. The kernel ends these instead of restarting
/// them, and their progress cannot be read from outside: they end by themselves, or the process stays. Returns the
/// threads that are in a call.
pub fn delicate(pid: Pid) -> Result<Vec<InCall>> {
    let mut sleepers = Vec::new();
    for tid in status::threads(pid).map_err(|_| MigrateError::Ended)? {
        if let Some((nr, args)) = status::call(pid, tid) {
            delicate_call(pid, nr, &args)?;
            sleepers.push(InCall { tid, nr, args });
        }
    }
    Ok(sleepers)
}

/// As [`delicate`], for one known call. A thread that was preempted on entry to a call does not show it.
pub fn delicate_call(pid: Pid, nr: i64, args: &[u64; 6]) -> Result<()> {
    match cannot_stop(pid, nr, args) {
        Some(why) => Err(MigrateError::Stays(Stay::Busy, why.into())),
        None => Ok(()),
    }
}

const WHOLE_MESSAGE: &str = "it waits for the whole of a message (MSG_WAITALL)";
pub const WHOLE_INPUT: &str = "it waits for several bytes (VMIN of a terminal, SO_RCVLOWAT)";

/// KERNEL: signal(7), "interruption of system calls by stop signals"; recv(2), MSG_WAITALL; termios(3); socket(7).
fn cannot_stop(pid: Pid, nr: i64, args: &[u64; 6]) -> Option<&'static str> {
    let all = |flags: u64| flags as i32 & libc::MSG_WAITALL != 0;
    match nr {
        // For a plain stream the rest is requested again; a body has no descriptors, so home takes care of it.
        _ if sends::gathers(nr as u64, args)
            && blocking::gathers(pid, args[0] as i32) != Some(false) =>
        {
            None
        }
        libc::SYS_recvfrom | libc::SYS_recvmmsg if all(args[3]) => Some(WHOLE_MESSAGE),
        libc::SYS_recvmsg if all(args[2]) => Some(WHOLE_MESSAGE),
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            read_minimum::of(pid, args[0] as i32).map(|_| WHOLE_INPUT)
        }
        _ if timers::sleeps_by_cpu_time(nr, args) => Some("it sleeps on a clock of CPU time"),
        libc::SYS_rt_sigtimedwait if args[2] != 0 => {
            Some("it waits for a signal with a limit of time (sigtimedwait)")
        }
        _ => None,
    }
}

/// The kernel refuses to let us trace a process: `tracer` traces it, or none does and it is forbidden.
pub fn cannot_be_traced(tracer: Pid) -> MigrateError {
    match tracer {
        0 => MigrateError::Stays(Stay::NotPermitted, yama::why(yama::scope()).into()),
        by => MigrateError::Stays(Stay::Traced, format!("process {by} traces it")),
    }
}

/// The first thread of `pid` has ended: with its process, or before the others.
fn ended(pid: Pid) -> MigrateError {
    match status::threads(pid).is_ok_and(|all| all.len() > 1) {
        true => MigrateError::Stays(Stay::Busy, "its first thread has ended".into()),
        false => MigrateError::Ended,
    }
}

impl StoppedThreads {
    pub fn new(pid: Pid) -> StoppedThreads {
        StoppedThreads {
            pid,
            seized: BTreeSet::new(),
            halted: Vec::new(),
            calls: None,
        }
    }

    /// The same process, whose threads this process stopped before it began its present program: `halted` with the
    /// signals that they stopped at.
    pub fn inherited(
        pid: Pid,
        seized: BTreeSet<Tid>,
        halted: impl IntoIterator<Item = (Tid, Option<(i32, SigInfo)>)>,
    ) -> StoppedThreads {
        let halted = halted.into_iter().filter_map(|(tid, signal)| {
            let thread = Stopped::inherited(tid)?;
            Some(Halted { thread, signal })
        });
        StoppedThreads {
            pid,
            halted: halted.collect(),
            seized,
            calls: None,
        }
    }

    /// Seizes all threads without stopping them.
    pub fn seize(&mut self, options: u64) -> Result<()> {
        loop {
            let fresh: Vec<Tid> = status::threads(self.pid)
                .map_err(|_| MigrateError::Ended)?
                .into_iter()
                .filter(|t| !self.seized.contains(t))
                .collect();
            if fresh.is_empty() {
                return Ok(());
            }
            for t in fresh {
                match trace::seize(t, options) {
                    Ok(()) => {
                        self.seized.insert(t);
                    }
                    Err(TraceError::Gone(_)) if t != self.pid => {}
                    Err(TraceError::Os { err, .. }) if err.raw_os_error() == Some(libc::EPERM) => {
                        let seen = status::read(t).ok();
                        if seen.as_ref().is_none_or(|s| matches!(s.state, 'Z' | 'X')) {
                            // KERNEL: ptrace_attach says EPERM of a thread that has ended, too.
                            if t == self.pid {
                                return Err(ended(t));
                            }
                            self.seized.insert(t);
                            continue;
                        }
                        let tracer = seen.map_or(0, |s| s.tracer);
                        if tracer as u32 == std::process::id() {
                            // It is seized already.
                            self.seized.insert(t);
                            continue;
                        }
                        return Err(cannot_be_traced(tracer));
                    }
                    Err(e) => return Err(e.into()),
                }
            }
        }
    }

    /// Stops every thread, including new ones that appear meanwhile.
    pub fn halt(&mut self, options: u64) -> Result<()> {
        // One limit for all: those already stopped wait for the others.
        let until = Instant::now() + TURN_MAX;
        loop {
            self.seize(options)?;
            let running: Vec<Tid> = self
                .seized
                .iter()
                .copied()
                .filter(|t| !self.halted.iter().any(|h| h.tid() == *t))
                .collect();
            if running.is_empty() {
                self.halted.sort_by_key(|h| (h.tid() != self.pid, h.tid()));
                return Ok(());
            }
            running.iter().for_each(|t| drop(trace::interrupt(*t)));
            for t in running {
                self.halt_by(t, until)?;
            }
        }
    }

    /// Stops these seized threads first: while sleepers are stopped, the others go on.
    pub fn halt_first(&mut self, sleepers: &[InCall]) -> Result<()> {
        let running =
            |t: &Tid| self.seized.contains(t) && !self.halted.iter().any(|h| h.tid() == *t);
        let all: Vec<Tid> = sleepers.iter().map(|c| c.tid).filter(running).collect();
        all.iter().for_each(|t| drop(trace::interrupt(*t)));
        let until = Instant::now() + TURN_MAX;
        all.into_iter().try_for_each(|t| self.halt_by(t, until))
    }

    /// Stops one thread (seized already), to use it for a moment.
    pub fn halt_one(&mut self, tid: Tid) -> Result<()> {
        self.halt_by(tid, Instant::now() + TURN_MAX)
    }

    fn halt_by(&mut self, tid: Tid, until: Instant) -> Result<()> {
        loop {
            match trace::wait_for_turn(tid, STOP_MAX, until) {
                Ok(Status::Stopped(thread, Stop::Trap)) => {
                    thread::settle_stopped(tid);
                    let signal = None;
                    self.halted.push(Halted { thread, signal });
                    return Ok(());
                }
                Ok(Status::Stopped(thread, Stop::Signal(sig))) => {
                    let signal = Some((sig, trace::siginfo(tid)?));
                    self.halted.push(Halted { thread, signal });
                    return Ok(());
                }
                Ok(Status::Stopped(thread, Stop::Group(_))) => {
                    let signal = None;
                    self.halted.push(Halted { thread, signal });
                    return Err(MigrateError::Stays(
                        Stay::Busy,
                        "it is stopped (job control)".into(),
                    ));
                }
                // An exec, clone or call stop: resume it and wait for ours.
                Ok(Status::Stopped(thread, stop)) => self.pass_on(thread, stop)?,
                Ok(Status::Continued) => {}
                Ok(Status::Exited(_) | Status::Killed(_)) | Err(TraceError::Gone(_)) => {
                    self.seized.remove(&tid);
                    return if tid == self.pid {
                        Err(MigrateError::Ended)
                    } else {
                        Ok(())
                    };
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Resumes a thread from a stop that is not ours, up to ours.
    fn pass_on(&self, thread: Stopped, stop: Stop) -> Result<()> {
        let tid = thread.tid();
        let to_end = stop == Stop::Call && self.calls.as_ref().is_some_and(|f| f(tid));
        // KERNEL: any stop cancels an interrupt that was requested before (ptrace_stop).
        trace::interrupt(tid)?;
        if to_end {
            trace::resume_to_call(thread, 0)?;
        } else {
            trace::resume(thread, 0)?;
        }
        Ok(())
    }

    /// Detaches every thread, with the signals it stopped at.
    pub fn release(mut self) {
        self.let_go();
    }

    /// Hands the seized threads over to the caller.
    pub fn disband(mut self) -> Vec<Halted> {
        self.seized.clear();
        std::mem::take(&mut self.halted)
    }

    /// Stops the seized threads that run: detaching needs a stop.
    pub fn stop_seized(&mut self) {
        let running: Vec<Tid> = self
            .seized
            .iter()
            .copied()
            .filter(|t| !self.halted.iter().any(|h| h.tid() == *t))
            .collect();
        for t in running {
            if trace::interrupt(t).is_ok() {
                let _ = self.halt_one(t);
            }
        }
    }

    fn let_go(&mut self) {
        self.stop_seized();
        for h in std::mem::take(&mut self.halted) {
            // One that died needs nothing.
            if let Some((thread, sig)) = h.deliver() {
                let _ = trace::detach(thread, sig);
            }
        }
        self.seized.clear();
    }
}

impl Drop for StoppedThreads {
    fn drop(&mut self) {
        self.let_go();
    }
}
