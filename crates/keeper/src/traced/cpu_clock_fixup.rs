//! A process that came home and has read more CPU time than home's kernel tells: what it reads is corrected.
//!
//! From: `resume.rs`. Next: `keeper/src/cpu_time/accounts.rs`.
//!
//! The kernel's clock cannot be set. So its threads stay seized and stop at the entry and the end of every call; the
//! results of a few calls are changed there. A process that did not read its CPU time while it was away, or that home's
//! kernel has told as much meanwhile, is not slowed down: it is let go. While it lasts, the program is traced as a deputy
//! is: it gets no rights by an exec and cannot be traced by others; before either it is let go.

use super::call_stops::{At, at, needs_untraced};
use super::follow_forks::follow_thread;
use crate::cpu_time::{self, CpuAccounts, ReturnedCall, Written};
use crate::restart::signal_ends_call;
use crate::state::Tree;
use armento_abi::Restart;
use armento_migrate::image::restarts;
use armento_model::{Pid, Tid};
use armento_tracee::sys;
use armento_tracee::trace::{self, Regs, Stop, Stopped};
use std::time::Instant;

/// Enough of every struct that is changed: the times come first.
const HEAD: usize = 32;

/// Memory of a thread that has made a call.
struct Memory {
    tid: Tid,
    args: [u64; 6],
}

impl Written for Memory {
    fn change(&mut self, arg: usize, len: usize, f: &mut dyn FnMut(&mut [u8])) {
        let at = self.args[arg];
        let mut b = [0u8; HEAD];
        let b = &mut b[..len.min(HEAD)];
        if at != 0 && matches!(sys::vm_read(self.tid, at, b), Ok(n) if n == b.len()) {
            f(b);
            // The kernel wrote there a moment ago.
            let _ = sys::vm_write(self.tid, at, b);
        }
    }
}

/// Corrects what a call has told. True at the entry of such a call: its end is to be seen.
pub fn correct_result(accounts: &CpuAccounts, pid: Pid, tid: Tid, at: &At) -> bool {
    if !cpu_time::tells(at.nr) {
        return false;
    }
    if !at.entry {
        let args = trace::args(&at.regs);
        let (nr, ret) = (at.nr, at.regs.rax as i64);
        let d = ReturnedCall {
            pid,
            tid,
            nr,
            args,
            ret,
        };
        accounts.correct(&d, true, &mut Memory { tid, args });
    }
    at.entry
}

/// A stop of a thread at home. Returns the thread when it is not watched.
pub fn watched_stopped(t: &mut Tree, thread: Stopped, stop: Stop) -> Option<Stopped> {
    let tid = thread.tid();
    let Some((pid, _)) = t.cpu_fixup.threads.get(&tid).copied() else {
        return match stop {
            Stop::Trap => newborn(t, thread),
            _ => Some(thread),
        };
    };
    let _ = match stop {
        Stop::Signal(sig) => {
            t.cpu_fixup.restarted.at_signal(tid, sig);
            trace::resume_to_call(thread, sig)
        }
        Stop::Group(_) => {
            t.cpu_fixup.restarted.at_group_stop(tid);
            trace::listen(thread)
        }
        Stop::Call => at_call(t, pid, thread),
        // One that a move let go on may have other options.
        Stop::Trap => trace::set_options(tid, t.passing_options(pid))
            .and_then(|()| trace::resume_to_call(thread, 0)),
        Stop::Event(_) => trace::resume_to_call(thread, 0),
    };
    None
}

/// The first stop of a child of a watched thread: a thread, or (by an unusual clone) a process, which is not ours.
/// Children of deputies are known by their process, and returned.
fn newborn(t: &mut Tree, thread: Stopped) -> Option<Stopped> {
    if t.cpu_fixup.threads.is_empty() {
        return Some(thread);
    }
    let tid = thread.tid();
    let Some(s) = t.born_at_home(tid) else {
        return Some(thread);
    };
    let _ = if t.cpu_fixup.has(s.tgid) {
        t.cpu_fixup.threads.insert(tid, (s.tgid, None));
        trace::resume_to_call(thread, 0)
    } else if t.follow.on {
        return Some(thread);
    } else {
        trace::detach(thread, 0)
    };
    None
}

fn at_call(t: &mut Tree, pid: Pid, thread: Stopped) -> trace::Result<()> {
    let tid = thread.tid();
    let accounts = t.keep.cpu.clone();
    let Some(mut a) = at(tid) else {
        return trace::resume_to_call(thread, 0);
    };
    let ours = correct_result(&accounts, pid, tid, &a);
    if a.entry {
        t.cpu_fixup.began(tid);
        t.cpu_fixup.restarted.at_entry(tid, a.nr);
    } else {
        wait_on(tid, &mut a.regs, t.cpu_fixup.since(tid))?;
        t.cpu_fixup.restarted.at_end(pid, tid, &mut a.regs)?;
    }
    let restarted = t.cpu_fixup.restarted.has(tid);
    if t.leaving.contains_key(&pid) && (restarted || t.cpu_fixup.has(pid)) {
        // Its move holds it.
        return trace::resume_to_call(thread, 0);
    }
    if !ours && t.cpu_fixup.due(pid) && !accounts.must_correct(pid) {
        t.cpu_fixup.procs.remove(&pid);
    }
    let bound = a.entry && needs_untraced(pid, tid, &a);
    if restarted || t.cpu_fixup.has(pid) && !bound {
        return trace::resume_to_call(thread, 0);
    }
    t.cpu_fixup.threads.remove(&tid);
    if t.leaving.contains_key(&pid) {
        trace::resume(thread, 0)
    } else if t.follow.on && !bound {
        follow_thread(t, (thread, 0), pid)
    } else {
        trace::detach(thread, 0)
    }
}

/// Traced, a thread is woken by signals that it ignores, too, and some calls end by that: such a one is issued
/// again, which the kernel does unless a handler runs. Not in time that began anew, where we can tell.
pub fn wait_on(tid: Tid, r: &mut Regs, since: Option<Instant>) -> trace::Result<()> {
    if r.rax as i64 != -i64::from(libc::EINTR) {
        return Ok(());
    }
    let row = armento_abi::row(r.orig_rax);
    if row.is_none_or(|row| row.restart != Restart::Eintr) || signal_ends_call(tid) {
        return Ok(());
    }
    let timed = matches!(
        r.orig_rax as i64,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait
    );
    if timed && r.r10 as i32 > 0 {
        let past = since.map_or(0, |t| t.elapsed().as_millis() as u64);
        r.r10 = (r.r10 as i32 as u64).saturating_sub(past);
    }
    r.rax = restarts::ERESTARTNOHAND as u64;
    // It must come by the kernel's own look at signals.
    trace::interrupt(tid)?;
    trace::set_regs(tid, r)
}
