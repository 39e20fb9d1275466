//! Stops and requests. Any request may find the thread dead, so each can return `Gone`.
//!
//! ```text
//! seize ──► runs ──kernel reports a stop──► Stopped ──resume, resume_to_call, step, listen, detach──► runs
//! ```
//! A request that lets a thread run takes its [`Stopped`], so that no thread is resumed twice, or by code that was not
//! told of its stop. The other requests take a number; the kernel refuses those on a thread that runs.

use crate::status;
use crate::sys::{self, SigInfo};
use armento_model::Tid;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub type Regs = sys::UserRegs;

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The thread died in the meantime. There is nothing to undo in it.
    #[error("thread {0} is gone")]
    Gone(Tid),
    #[error("{what} on thread {tid}: {err}")]
    Os {
        what: &'static str,
        tid: Tid,
        err: io::Error,
    },
    /// The thread does not stop: vfork, disk wait.
    #[error("thread {0} does not stop")]
    Busy(Tid),
    /// A call injected into it failed.
    #[error("{what} inside {tid}: errno {errno}")]
    Inside {
        what: &'static str,
        tid: Tid,
        errno: i32,
    },
    #[error("{0}")]
    Odd(String),
}

pub type Result<T> = std::result::Result<T, TraceError>;

pub(crate) fn os<T>(what: &'static str, tid: Tid, r: io::Result<T>) -> Result<T> {
    r.map_err(|err| match err.raw_os_error() {
        Some(libc::ESRCH) => TraceError::Gone(tid),
        _ => TraceError::Os { what, tid, err },
    })
}

/// A thread in a ptrace stop. Made only where the kernel reported the stop, and given up by what resumes the thread: at
/// most one exists of a thread.
///
/// One that is dropped leaves its thread as it is: stopped on purpose, until its tracer ends; or dead, which any
/// request may find.
///
/// ```compile_fail,E0382
/// use armento_tracee::trace::{self, Stopped};
/// fn twice(thread: Stopped) {
///     let _ = trace::resume(thread, 0);
///     let _ = trace::resume(thread, 0);
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a thread whose `Stopped` is dropped stays stopped"]
pub struct Stopped(Tid);

impl Stopped {
    /// A second one, of a thread that [`crate::inject::Hold`] holds. Before: the first is kept meanwhile. After: when
    /// the hold ends the thread is stopped again, or dead, so the first is right as it was before.
    pub(crate) fn held(tid: Tid) -> Stopped {
        Stopped(tid)
    }

    /// One that this process stopped before it began its present program: execve(2) of the tracer leaves tracees as they
    /// are. `None`: it is not stopped, or another traces it.
    pub fn inherited(tid: Tid) -> Option<Stopped> {
        let s = crate::status::read(tid).ok()?;
        let ours = s.tracer as u32 == std::process::id();
        (ours && matches!(s.state, 't' | 'T')).then_some(Stopped(tid))
    }

    pub fn tid(&self) -> Tid {
        self.0
    }
}

/// Why a traced thread reported.
#[derive(Debug, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Killed(i32),
    Stopped(Stopped, Stop),
    /// Reported only without tracing; ignored.
    Continued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A signal is about to be delivered.
    Signal(i32),
    /// The whole group stopped for this signal (PTRACE_LISTEN keeps it so).
    Group(i32),
    /// PTRACE_INTERRUPT, or the first stop of an attached child, or SIGCONT's end of a group stop.
    Trap,
    /// PTRACE_EVENT_*.
    Event(i32),
    /// Entry or exit of a call after PTRACE_SYSCALL.
    Call,
}

const PTRACE_SEIZE: u32 = 0x4206;
const PTRACE_INTERRUPT: u32 = 0x4207;
const PTRACE_LISTEN: u32 = 0x4208;
const PTRACE_PEEKSIGINFO: u32 = 0x4209;
const PTRACE_GETSIGMASK: u32 = 0x420a;
const PTRACE_SETSIGMASK: u32 = 0x420b;
const PTRACE_GET_RSEQ: u32 = 0x420f;
const PTRACE_GET_DISPATCH: u32 = 0x4211;
const NT_X86_XSTATE: u64 = 0x202;
const EVENT_STOP: i32 = 128;

/// Children and execs are reported; system-call stops are distinguished from SIGTRAP.
pub const FOLLOW: u64 = (libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC) as u64;
pub const EXITKILL: u64 = libc::PTRACE_O_EXITKILL as u64;
/// Only execs and system-call stops: for programs that are traced only for a short time.
pub const WATCH: u64 = (libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC) as u64;

/// The status of `tid`, which the kernel has just reported.
fn decode(tid: Tid, status: i32) -> Status {
    if libc::WIFEXITED(status) {
        return Status::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Status::Killed(libc::WTERMSIG(status));
    }
    if libc::WIFCONTINUED(status) {
        return Status::Continued;
    }
    let sig = libc::WSTOPSIG(status);
    let event = status >> 16;
    let stop = match event {
        0 if sig == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(sig),
        EVENT_STOP if sig == libc::SIGTRAP => Stop::Trap,
        EVENT_STOP => Stop::Group(sig),
        e => Stop::Event(e),
    };
    Status::Stopped(Stopped(tid), stop)
}

pub fn seize(tid: Tid, options: u64) -> Result<()> {
    os("seize", tid, sys::ptrace(PTRACE_SEIZE, tid, 0, options)).map(drop)
}

pub fn interrupt(tid: Tid) -> Result<()> {
    os("interrupt", tid, sys::ptrace(PTRACE_INTERRUPT, tid, 0, 0)).map(drop)
}

pub fn set_options(tid: Tid, options: u64) -> Result<()> {
    os(
        "set options",
        tid,
        sys::ptrace(libc::PTRACE_SETOPTIONS, tid, 0, options),
    )
    .map(drop)
}

/// Resumes it; `sig` is delivered (0: none).
pub fn resume(Stopped(tid): Stopped, sig: i32) -> Result<()> {
    os(
        "continue",
        tid,
        sys::ptrace(libc::PTRACE_CONT, tid, 0, sig as u64),
    )
    .map(drop)
}

/// Resumes it until the next entry or exit of a system call.
pub fn resume_to_call(Stopped(tid): Stopped, sig: i32) -> Result<()> {
    os(
        "syscall",
        tid,
        sys::ptrace(libc::PTRACE_SYSCALL, tid, 0, sig as u64),
    )
    .map(drop)
}

/// Executes one instruction.
pub fn step(Stopped(tid): Stopped, sig: i32) -> Result<()> {
    os(
        "step",
        tid,
        sys::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, sig as u64),
    )
    .map(drop)
}

/// Stops it (SIGTRAP, TRAP_HWBKPT) before it executes the instruction at `at`; `None` clears the breakpoint. KERNEL:
/// debug register 0, enabled by bit 0 of register 7. SDM vol. 3, 18.2.
pub fn set_break(tid: Tid, at: Option<u64>) -> Result<()> {
    let base = std::mem::offset_of!(libc::user, u_debugreg) as u64;
    let poke = |reg: u64, value| {
        let r = sys::ptrace(libc::PTRACE_POKEUSER, tid, base + reg * 8, value);
        os("set a breakpoint", tid, r).map(drop)
    };
    poke(7, 0)?;
    poke(0, at.unwrap_or(0))?;
    poke(7, u64::from(at.is_some()))
}

/// Whether a tracer has set breakpoints in the debug registers of a thread. KERNEL: they outlast the tracer that set
/// them.
pub fn has_breaks(tid: Tid) -> bool {
    let at = std::mem::offset_of!(libc::user, u_debugreg) as u64 + 7 * 8;
    let mut control = 0u64;
    sys::ptrace_out(libc::PTRACE_PEEKUSER, tid, at, &mut control).is_ok() && control & 0xff != 0
}

/// Leaves it in its group stop and lets SIGCONT end that stop.
pub fn listen(Stopped(tid): Stopped) -> Result<()> {
    os("listen", tid, sys::ptrace(PTRACE_LISTEN, tid, 0, 0)).map(drop)
}

/// Whether it is in a group stop (job control). KERNEL: its siginfo has PTRACE_EVENT_STOP in the code's high half.
pub fn in_group_stop(tid: Tid) -> bool {
    siginfo(tid).is_ok_and(|i| {
        let signo = i32::from_le_bytes(i[..4].try_into().unwrap_or_default());
        sys::siginfo_code(&i) >> 8 == EVENT_STOP && signo != libc::SIGTRAP
    })
}

/// Ends its tracing; `sig` is delivered (0: none).
pub fn detach(Stopped(tid): Stopped, sig: i32) -> Result<()> {
    os(
        "detach",
        tid,
        sys::ptrace(libc::PTRACE_DETACH, tid, 0, sig as u64),
    )
    .map(drop)
}

pub fn regs(tid: Tid) -> Result<Regs> {
    let mut r = sys::zeroed_regs();
    os(
        "get registers",
        tid,
        sys::ptrace_out(libc::PTRACE_GETREGS, tid, 0, &mut r),
    )?;
    Ok(r)
}

pub fn set_regs(tid: Tid, r: &Regs) -> Result<()> {
    os(
        "set registers",
        tid,
        sys::ptrace_in(libc::PTRACE_SETREGS, tid, 0, r),
    )
    .map(drop)
}

/// The extended state in XSAVE layout; its size depends on the machine.
pub fn xstate(tid: Tid) -> Result<Vec<u8>> {
    let mut b = vec![0u8; 16 << 10];
    let n = os(
        "get xstate",
        tid,
        sys::regset(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &mut b),
    )?;
    b.truncate(n);
    Ok(b)
}

/// Most bytes that [`xstate`] gives on this machine. SDM vol. 1, 13.2: leaf 0xd, what the system has enabled.
pub fn xstate_len() -> usize {
    // CPUID leaves a virtual machine: dozens of microseconds.
    static LEN: OnceLock<usize> = OnceLock::new();
    *LEN.get_or_init(|| std::arch::x86_64::__cpuid_count(0xd, 0).ebx as usize)
}

/// `b` may lack zeros at its end. KERNEL: it requires the full length (xstateregs_set).
pub fn set_xstate(tid: Tid, b: &[u8]) -> Result<()> {
    let mut b = b.to_vec();
    b.resize(b.len().max(xstate_len()), 0);
    os(
        "set xstate",
        tid,
        sys::regset(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, &mut b),
    )
    .map(drop)
}

pub fn sigmask(tid: Tid) -> Result<u64> {
    let mut m = 0u64;
    os(
        "get signal mask",
        tid,
        sys::ptrace_out(PTRACE_GETSIGMASK, tid, 8, &mut m),
    )?;
    Ok(m)
}

pub fn set_sigmask(tid: Tid, m: u64) -> Result<()> {
    os(
        "set signal mask",
        tid,
        sys::ptrace_in(PTRACE_SETSIGMASK, tid, 8, &m),
    )
    .map(drop)
}

pub fn siginfo(tid: Tid) -> Result<SigInfo> {
    let mut i: SigInfo = [0; 128];
    os(
        "get siginfo",
        tid,
        sys::ptrace_out(libc::PTRACE_GETSIGINFO, tid, 0, &mut i),
    )?;
    Ok(i)
}

pub fn set_siginfo(tid: Tid, i: &SigInfo) -> Result<()> {
    os(
        "set siginfo",
        tid,
        sys::ptrace_in(libc::PTRACE_SETSIGINFO, tid, 0, i),
    )
    .map(drop)
}

/// PTRACE_GETEVENTMSG: the new child's tid, the exit code, …
pub fn event_msg(tid: Tid) -> Result<u64> {
    let mut m = 0u64;
    os(
        "event message",
        tid,
        sys::ptrace_out(libc::PTRACE_GETEVENTMSG, tid, 0, &mut m),
    )?;
    Ok(m)
}

/// Queued signals of the thread, or of its whole process when `shared`.
pub fn pending(tid: Tid, shared: bool) -> Result<Vec<SigInfo>> {
    #[repr(C)]
    struct Args {
        off: u64,
        flags: u32,
        nr: i32,
    }
    const BATCH: usize = 32;
    let mut all = Vec::new();
    loop {
        let args = Args {
            off: all.len() as u64,
            flags: shared.into(),
            nr: BATCH as i32,
        };
        let mut buf = [[0u8; 128]; BATCH];
        let addr = std::ptr::from_ref(&args) as u64;
        let n = os(
            "peek signals",
            tid,
            sys::ptrace_out(PTRACE_PEEKSIGINFO, tid, addr, &mut buf),
        )? as usize;
        all.extend_from_slice(&buf[..n]);
        // KERNEL: RLIMIT_SIGPENDING bounds the queue; the second bound is ours.
        if n < BATCH || all.len() > 65536 {
            return Ok(all);
        }
    }
}

/// What rseq(2) registered: address, size, signature, flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rseq {
    pub ptr: u64,
    pub len: u32,
    pub sig: u32,
    pub flags: u32,
    pub pad: u32,
}

pub fn rseq(tid: Tid) -> Result<Rseq> {
    let mut r = Rseq::default();
    os(
        "rseq configuration",
        tid,
        sys::ptrace_out(PTRACE_GET_RSEQ, tid, size_of::<Rseq>() as u64, &mut r),
    )?;
    Ok(r)
}

/// Whether a thread catches its own system calls (PR_SET_SYSCALL_USER_DISPATCH). False if the kernel does not support the query.
/// KERNEL: PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, linux/ptrace.h, since 6.4.
pub fn dispatches(tid: Tid) -> bool {
    let mut config = DispatchConfig::default();
    let size = size_of::<DispatchConfig>() as u64;
    sys::ptrace_out(PTRACE_GET_DISPATCH, tid, size, &mut config).is_ok() && config.mode != 0
}

/// struct ptrace_sud_config.
#[repr(C)]
#[derive(Default)]
struct DispatchConfig {
    mode: u64,
    selector: u64,
    offset: u64,
    len: u64,
}

/// Sleep between two polls of a thread that is to stop; a thread that has not stopped within `SLOW` is polled less
/// often. MEASURED: with 47 programs on a tenth of a core, polling each millisecond cost each of their keepers 0.3 ms a
/// second.
const NAP_MAX: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_millis(50);
const NAP_SLOW: Duration = Duration::from_millis(5);

/// Waits for `tid` alone, at most `limit`. Children of other threads are not touched.
pub fn wait_for(tid: Tid, limit: Duration) -> Result<Status> {
    let began = Instant::now();
    let mut nap = Duration::from_micros(5);
    loop {
        if let Some((_, s)) = os("wait", tid, wait_raw(tid))? {
            return Ok(decode(tid, s));
        }
        let past = began.elapsed();
        if past > limit {
            return Err(TraceError::Busy(tid));
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(if past < SLOW { NAP_MAX } else { NAP_SLOW });
    }
}

/// A runnable thread stops as soon as it is scheduled: with fifty of them on a tenth of a core that takes more than a
/// second (MEASURED).
pub const TURN_MAX: Duration = Duration::from_secs(5);

/// As [`wait_for`]; but a runnable thread is waited for until `until`.
pub fn wait_for_turn(tid: Tid, limit: Duration, until: Instant) -> Result<Status> {
    loop {
        match wait_for(tid, limit) {
            Err(TraceError::Busy(_))
                if Instant::now() < until && status::thread_state(tid) == Some('R') => {}
            other => return other,
        }
    }
}

fn wait_raw(tid: Tid) -> io::Result<Option<(i32, i32)>> {
    match sys::waitpid(tid, libc::__WALL | libc::WNOHANG) {
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
        other => other,
    }
}

/// Waits for `tid` without a timeout: for a stop that is certain to come (after an injected int3).
pub fn wait_certain(tid: Tid) -> Result<Status> {
    match sys::waitpid(tid, libc::__WALL) {
        Ok(Some((_, s))) => Ok(decode(tid, s)),
        Ok(None) => Err(TraceError::Gone(tid)),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Err(TraceError::Gone(tid)),
        Err(err) => Err(TraceError::Os {
            what: "wait",
            tid,
            err,
        }),
    }
}

/// As [`wait_certain`], but the end of a thread is not consumed: `Gone`.
pub fn wait_stop(tid: Tid) -> Result<Status> {
    match os("wait", tid, sys::ends(tid))? {
        true => Err(TraceError::Gone(tid)),
        false => wait_certain(tid),
    }
}

/// The arguments of a call that a thread is in.
pub fn args(r: &Regs) -> [u64; 6] {
    [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
}

/// Any report of any thread seized by this OS thread, without blocking.
pub fn next_report() -> Option<(Tid, Status)> {
    match sys::waitpid(-1, libc::__WALL | libc::WNOHANG) {
        Ok(Some((tid, s))) => Some((tid, decode(tid, s))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_decoded() {
        let check = |raw, want| assert_eq!(decode(5, raw), want, "{raw:#x}");
        let stops = |raw, stop| check(raw, Status::Stopped(Stopped(5), stop));
        check(0x0300, Status::Exited(3));
        check(0x0009, Status::Killed(9));
        stops(0x137f | 0x80 << 16, Stop::Group(libc::SIGSTOP));
        stops(0x057f | 128 << 16, Stop::Trap);
        stops(0x857f, Stop::Call);
        stops(0x0a7f, Stop::Signal(10));
        stops(0x057f | 4 << 16, Stop::Event(4));
    }
}
