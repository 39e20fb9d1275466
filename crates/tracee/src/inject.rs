//! Makes a stopped thread do injected calls and then restores its state.
//!
//! ```text
//! stopped ──Hold::take──► held ──call / batch──► held ──drop──► stopped, registers and mask as before
//! ```
//! While held, the thread blocks every signal that can be blocked, so that no handler runs in between. Many threads
//! make their calls in parallel if each call is begun before the first is waited for ([`Hold::begin`],
//! [`Code::scratch_area`]).

use crate::PAGE;
use crate::call::{Call, TRAP_FLAG, aim, bit};
use crate::region::Code;
use crate::status;
use crate::sys::{self, SigInfo};
use crate::trace::{self, Regs, Result, Status, Stop, Stopped, TURN_MAX, TraceError};
use crate::trap;
use armento_model::Tid;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Signals that a held thread does not block: our int3 forces SIGTRAP. A fault signal stays pending if it was sent by a
/// process; one that our own calls caused would end the program (KERNEL: force_sig_info_to_task).
pub const NEVER_BLOCK: u64 = bit(libc::SIGTRAP);

/// Whether the program of `tid` ignores SIGTRAP. See [`Hold::take_known`].
pub fn ignores_trap(tid: Tid) -> bool {
    trap::ignored(tid)
}

/// Called before and after a filtered thread makes injected calls, so that its seccomp listener lets exactly these
/// calls through, in this order. Our code and its arguments lie in memory that the program's other threads can write.
pub trait Allowlist: Send + Sync {
    fn open(&self, tid: Tid, calls: &[Call]);
    fn close(&self, tid: Tid);
}

/// For threads that have no filter.
pub struct Unfiltered;
impl Allowlist for Unfiltered {
    fn open(&self, _: Tid, _: &[Call]) {}
    fn close(&self, _: Tid) {}
}

/// A thread that is resumed for one system call stops within microseconds once it is scheduled.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The instruction that makes a system call.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The longest path through a vDSO function that reads the time has some hundred instructions; getrandom for a kilobyte
/// has some ten thousand.
const STEPS_MAX: usize = 20_000;

/// KERNEL: SYNCHRONOUS_MASK, kernel/signal.c.
const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSYS);
/// The instruction that most often clears the trap flag: the trap after it still comes.
const POPF: u8 = 0x9d;

/// The origin of a SIGTRAP for which a held thread stopped.
enum Trap {
    /// Our code or our single step is done.
    Ours,
    /// The program's own: sent to it, or raised by one of its instructions. It is sent again after the hold.
    Its,
    /// From a breakpoint or single step of ours that is already done.
    Stale,
}

/// The position at which [`Hold::step_out`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    Yes,
    /// Still inside, and the next instruction makes a system call.
    AtCall,
    TooFar,
}

pub struct Hold {
    pub tid: Tid,
    /// The registers that are restored at the end. May be changed while held.
    pub regs: Regs,
    pub mask: u64,
    /// A SIGSTOP came while it was held.
    stopped: bool,
    /// Signals that arrived although every blockable signal was blocked.
    sent: Vec<SigInfo>,
    allowlist: Arc<dyn Allowlist>,
    /// The program ignores SIGTRAP, a disposition that our traps reset.
    ignores_trap: bool,
    /// Our injected code in the tracee, and scratch memory.
    code: Option<(u64, u64)>,
    /// The number of calls of the batch that is running.
    begun: Option<usize>,
    /// Set while it runs after [`Hold::go`].
    runs: bool,
    armed: bool,
}

impl Hold {
    /// Before: `tid` is in a ptrace stop at the user-mode boundary (not an exec event), and its [`Stopped`] is kept until
    /// the hold ends.
    pub fn take(tid: Tid, allowlist: Arc<dyn Allowlist>) -> Result<Hold> {
        Hold::take_known(tid, allowlist, trap::ignored(tid))
    }

    /// As [`Hold::take`], for one of many threads: the caller has read once whether their program ignores SIGTRAP.
    pub fn take_known(tid: Tid, allowlist: Arc<dyn Allowlist>, ignores_trap: bool) -> Result<Hold> {
        let regs = trace::regs(tid)?;
        let mask = trace::sigmask(tid)?;
        trace::set_sigmask(tid, !NEVER_BLOCK)?;
        Ok(Hold {
            tid,
            regs,
            mask,
            stopped: false,
            sent: Vec::new(),
            allowlist,
            ignores_trap,
            code: None,
            begun: None,
            runs: false,
            armed: true,
        })
    }

    /// Sets whether the program ignores SIGTRAP after the hold. Set by a call now, that disposition would be lost at
    /// the call's own trap.
    pub fn ignore_trap(&mut self, yes: bool) {
        self.ignores_trap = yes;
    }

    pub fn ignores_trap(&self) -> bool {
        self.ignores_trap
    }

    /// The held thread, to let it run for a moment: [`Hold::until_trap`] or [`Hold::await_stop`] follows.
    fn thread(&self) -> Stopped {
        Stopped::held(self.tid)
    }

    /// Makes one call at the `syscall` instruction `at` (the vDSO's, while none of our code is mapped yet).
    pub fn call_at(&mut self, at: u64, nr: i64, args: [u64; 6]) -> Result<i64> {
        trace::set_regs(self.tid, &aim(&self.regs, at, nr, args))?;
        trace::step(self.thread(), 0)?;
        self.until_trap(Some(at))?;
        Ok(trace::regs(self.tid)?.rax as i64)
    }

    /// Makes one call through the gate of our own page. A child that it creates is returned with the result.
    pub fn call(&mut self, code: &Code, nr: i64, args: [u64; 6]) -> Result<(i64, Option<Tid>)> {
        self.code = Some((code.start, code.trap_action()));
        trace::set_regs(self.tid, &aim(&self.regs, code.gate, nr, args))?;
        let child = self.calls(&[(nr, args)])?;
        Ok((trace::regs(self.tid)?.rax as i64, child))
    }

    /// Makes many calls in one batch; returns their results in order.
    pub fn batch(&mut self, code: &Code, calls: &[Call]) -> Result<Vec<i64>> {
        let mut all = Vec::with_capacity(calls.len());
        for part in calls.chunks(code.batch_max) {
            self.begin(code, part)?;
            all.extend(self.end(code)?);
        }
        Ok(all)
    }

    /// Begins calls, at most as many as fit into one batch; [`Hold::end`], with the same code, waits for them.
    pub fn begin(&mut self, code: &Code, calls: &[Call]) -> Result<()> {
        assert!(calls.len() <= code.batch_max && self.begun.is_none());
        self.code = Some((code.start, code.trap_action()));
        code.write_batch(calls);
        let mut r = aim(&self.regs, code.start, 0, [0; 6]);
        r.r15 = code.batch;
        trace::set_regs(self.tid, &r)?;
        self.allowlist.open(self.tid, calls);
        if let Err(e) = trace::resume(self.thread(), 0) {
            self.allowlist.close(self.tid);
            return Err(e);
        }
        self.begun = Some(calls.len());
        Ok(())
    }

    /// Waits for the calls that were begun, and returns their results in order.
    pub fn end(&mut self, code: &Code) -> Result<Vec<i64>> {
        let Some(n) = self.begun.take() else {
            return Ok(Vec::new());
        };
        let ran = self.until_trap(None);
        self.allowlist.close(self.tid);
        ran?;
        Ok(code.read_batch(n))
    }

    /// As [`Hold::end`]; every call must succeed.
    pub fn end_ok(&mut self, code: &Code, what: &'static str) -> Result<()> {
        let all = self.end(code)?;
        all.into_iter()
            .try_for_each(|r| ok(what, self.tid, r).map(drop))
    }

    /// A batch in which every call must succeed.
    pub fn batch_ok(&mut self, code: &Code, what: &'static str, calls: &[Call]) -> Result<()> {
        for r in self.batch(code, calls)? {
            ok(what, self.tid, r)?;
        }
        Ok(())
    }

    /// Runs our code, which makes these calls, to its int3.
    fn calls(&mut self, calls: &[Call]) -> Result<Option<Tid>> {
        self.allowlist.open(self.tid, calls);
        let ran = trace::resume(self.thread(), 0).and_then(|()| self.until_trap(None));
        self.allowlist.close(self.tid);
        ran
    }

    /// The origin of a SIGTRAP. KERNEL: a trap's own code is above 0 (sigaction(2)), SI_KERNEL that of int3
    /// (do_int3_user); a trap that the program caused right before it was stopped is reported before any of our code
    /// runs.
    fn trap_origin(&self, info: &SigInfo, step_from: Option<u64>) -> Result<Trap> {
        let code = sys::siginfo_code(info);
        if code <= 0 {
            return Ok(Trap::Its);
        }
        let here = || trace::regs(self.tid).map(|r| r.rip);
        let of_a_step = code == libc::TRAP_TRACE;
        let may_be_its = code == libc::SI_KERNEL || of_a_step && self.steps_itself();
        Ok(match step_from {
            Some(from) if may_be_its && here()? == from => Trap::Its,
            Some(_) => Trap::Ours,
            None if code == libc::SI_KERNEL => match self.code {
                Some((start, _)) if !(start..start + PAGE).contains(&here()?) => Trap::Its,
                _ => Trap::Ours,
            },
            None if of_a_step && !self.steps_itself() => Trap::Stale,
            None if matches!(code, libc::TRAP_BRKPT | libc::TRAP_HWBKPT) => Trap::Stale,
            None => Trap::Its,
        })
    }

    /// Whether this is a fault signal that was sent to the program and is pending and blocked. KERNEL:
    /// dequeue_synchronous_signal takes the first of the queue when any of them, such as our trap, is not blocked;
    /// ptrace_signal queues one that is blocked again.
    fn is_pending_fault(&self, sig: i32) -> bool {
        FAULTS & bit(sig) != 0
            && status::read(self.tid)
                .is_ok_and(|s| s.sig_pending & NEVER_BLOCK != 0 && s.blocked & bit(sig) != 0)
    }

    /// Whether the program was single-stepping itself when it was stopped.
    fn steps_itself(&self) -> bool {
        let mut last = [0];
        let at = self.regs.rip.wrapping_sub(1);
        self.regs.eflags & TRAP_FLAG != 0
            || sys::vm_read(self.tid, at, &mut last).is_ok_and(|n| n == 1 && last == [POPF])
    }

    /// Runs until our int3, or the end of a single step that began at `step_from`. Event stops of new children are
    /// skipped.
    fn until_trap(&mut self, step_from: Option<u64>) -> Result<Option<Tid>> {
        let mut child = None;
        loop {
            let (thread, stop) = match trace::wait_certain(self.tid)? {
                Status::Stopped(thread, stop) => (thread, stop),
                // Reported only without tracing.
                Status::Continued => continue,
                Status::Exited(_) | Status::Killed(_) => {
                    self.armed = false;
                    self.allowlist.close(self.tid);
                    return Err(TraceError::Gone(self.tid));
                }
            };
            match stop {
                Stop::Signal(libc::SIGTRAP) => {
                    let info = trace::siginfo(self.tid)?;
                    match self.trap_origin(&info, step_from)? {
                        Trap::Ours => return Ok(child),
                        // One signal of each number may be pending.
                        Trap::Its => self.sent.push(info),
                        Trap::Stale => {}
                    }
                }
                // SIGSTOP cannot be blocked: it is sent again after the hold.
                Stop::Signal(libc::SIGSTOP) => self.stopped = true,
                // Requeued, to come after our trap.
                Stop::Signal(sig) if self.is_pending_fault(sig) => {
                    trace::resume(thread, sig)?;
                    continue;
                }
                Stop::Signal(sig) => {
                    return Err(TraceError::Odd(format!(
                        "signal {sig} in our own code in thread {}",
                        self.tid
                    )));
                }
                Stop::Event(_) => child = Some(trace::event_msg(self.tid)? as Tid),
                Stop::Trap | Stop::Group(_) | Stop::Call => {}
            }
            if step_from.is_some() {
                trace::step(thread, 0)?
            } else {
                trace::resume(thread, 0)?
            }
        }
    }

    /// Resumes the thread with `resume`; [`Hold::await_stop`] follows.
    pub fn go(&mut self, resume: impl Fn(Stopped) -> Result<()>) -> Result<()> {
        resume(self.thread())?;
        self.runs = true;
        Ok(())
    }

    /// Waits until it stops, by itself or by our interrupt; at a SIGSTOP it is resumed once more with `resume`.
    pub fn await_stop(&mut self, resume: impl Fn(Stopped) -> Result<()>) -> Result<()> {
        loop {
            match trace::wait_for_turn(self.tid, STOP_MAX, Instant::now() + TURN_MAX)? {
                Status::Stopped(thread, Stop::Signal(libc::SIGSTOP)) => {
                    self.stopped = true;
                    resume(thread)?;
                }
                Status::Stopped(..) => break,
                _ => {
                    self.armed = false;
                    self.allowlist.close(self.tid);
                    return Err(TraceError::Gone(self.tid));
                }
            }
        }
        self.runs = false;
        Ok(())
    }

    /// Completes a call that was begun in it before calls of another thread failed.
    fn settle(&mut self) -> Result<()> {
        if self.begun.take().is_some() {
            let ran = self.until_trap(None);
            self.allowlist.close(self.tid);
            ran?;
        }
        if std::mem::take(&mut self.runs) {
            trace::interrupt(self.tid)?;
            self.await_stop(|thread| trace::resume(thread, 0))?;
        }
        Ok(())
    }

    /// Single-steps until it is outside of code that does not travel.
    pub fn step_out(&mut self, inside: &dyn Fn(u64) -> bool) -> Result<Outside> {
        for _ in 0..STEPS_MAX {
            if !inside(self.regs.rip) {
                return Ok(Outside::Yes);
            }
            if self.is_to_restart() {
                // It goes back to its call as soon as it runs.
                return Ok(Outside::AtCall);
            }
            let mut next = [0u8; 2];
            let got = sys::vm_read(self.tid, self.regs.rip, &mut next);
            if got.is_ok_and(|n| n == next.len()) && next == SYSCALL {
                return Ok(Outside::AtCall);
            }
            // A call of ours may have been made before: the thread stands behind that.
            trace::set_regs(self.tid, &self.regs)?;
            trace::step(self.thread(), 0)?;
            self.until_trap(Some(self.regs.rip))?;
            self.regs = trace::regs(self.tid)?;
        }
        Ok(Outside::TooFar)
    }

    /// Whether it was interrupted in a call that the kernel makes it begin again. KERNEL: arch_do_signal_or_restart.
    fn is_to_restart(&self) -> bool {
        self.regs.orig_rax as i64 >= 0 && (-516..=-512).contains(&(self.regs.rax as i64))
    }

    /// Takes the signals that arrived while all were blocked: they are then not sent again.
    pub fn take_sent(&mut self) -> Vec<SigInfo> {
        std::mem::take(&mut self.sent)
    }

    /// Releases the thread with other registers (a deputy, a finished body).
    pub fn finish(mut self, regs: Regs, mask: u64) -> Result<()> {
        self.regs = regs;
        self.mask = mask;
        self.put_back()
    }

    /// SIGCONT cancels a stop that was sent before it. KERNEL: prepare_signal; for a traced process SIGCONT stays
    /// pending.
    fn continued(&self) -> bool {
        status::read(self.tid)
            .is_ok_and(|s| (s.sig_pending | s.shared_pending) & bit(libc::SIGCONT) != 0)
    }

    fn put_back(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.armed) {
            return Ok(());
        }
        let waited = self.settle();
        if let Err(TraceError::Gone(_)) = waited {
            return waited;
        }
        // Errors do not stop the restore: the rest must be restored too.
        let ignored = match self.ignores_trap {
            true => {
                trap::ignore_again(self.tid, &self.regs, self.code.map(|c| c.1), &mut self.sent)
            }
            false => Ok(()),
        };
        if std::mem::take(&mut self.stopped) && !self.continued() {
            // Sent to the whole process, as every SIGSTOP is.
            let _ = sys::kill(self.tid, libc::SIGSTOP);
        }
        for info in std::mem::take(&mut self.sent) {
            let tgid = status::read(self.tid).map_or(self.tid, |s| s.tgid);
            let sig = i32::from(info[0]);
            let _ = match sys::siginfo_code(&info) {
                libc::SI_USER => sys::kill(tgid, sig),
                // Codes that any sender may use. The signal was for the process, or its code tells that it is for one
                // thread.
                code if code < 0 && code != libc::SI_TKILL => sys::sigqueue(tgid, None, sig, &info),
                _ => sys::tgkill(tgid, self.tid, sig),
            };
        }
        trace::set_regs(self.tid, &self.regs)?;
        trace::set_sigmask(self.tid, self.mask)?;
        waited.and(ignored)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A dead thread needs no restore.
        let _ = self.put_back();
    }
}

/// Turns a negative result of an injected call into an error.
pub fn ok(what: &'static str, tid: Tid, r: i64) -> Result<u64> {
    if (-4095..0).contains(&r) {
        Err(TraceError::Inside {
            what,
            tid,
            errno: -r as i32,
        })
    } else {
        Ok(r as u64)
    }
}
