//! A process that came home and has read more CPU time than home's kernel tells: what it reads is corrected.
//!
//! From: `arrive.rs`, `depart.rs` (a move that did not come off). Next: `cpu.rs`.
//!
//! The kernel's clock cannot be set. So its threads stay seized and stop at the entry and the end of every call;
//! the results of a few calls are changed there. Nobody pays for it who did not read his CPU time while he was
//! away, or whom home's kernel has told as much meanwhile: he is let go. While it lasts, the program is traced
//! as a deputy is: it gets no rights by an exec and cannot be traced by others; before either it is let go.

use crate::cpu_time::{self, Books, Done, Written};
use crate::restart::in_progress::{Led, ends_calls};
use crate::state::tree::Tree;
use crate::traced::setuid_exec;
use armento_abi::Restart;
use armento_migrate::image::thread;
use armento_migrate::stop::{Calls, Grip, Halted};
use armento_model::{Pid, Tid};
use armento_tracee::trace::{self, Regs, Stop};
use armento_tracee::{status, sys};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// New threads are seized from their first instruction on.
const WATCHED: u64 = trace::WATCH | libc::PTRACE_O_TRACECLONE as u64;
/// How often we look whether home's kernel tells enough by now.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Enough of every struct that is changed: the times come first.
const HEAD: usize = 32;

#[derive(Default)]
pub struct Watch {
    /// Who is watched, and when we looked last.
    procs: HashMap<Pid, Instant>,
    /// Threads that stop at calls, and when their last call began. Their process may be watched no more.
    threads: HashMap<Tid, (Pid, Option<Instant>)>,
    /// … only until the end of their call, if their process is not watched.
    pub led: Led,
}

impl Watch {
    pub fn has(&self, pid: Pid) -> bool {
        self.procs.contains_key(&pid)
    }

    /// It leaves, ended or exec'd.
    pub fn forget(&mut self, pid: Pid) {
        self.procs.remove(&pid);
        self.threads.retain(|_, (p, _)| *p != pid);
        self.led.forget_process(pid);
    }

    /// A thread was interrupted by nothing of the program's: has it done a part of its call, it is led to the end.
    pub fn lead_rest(&mut self, pid: Pid, tid: Tid) -> trace::Result<bool> {
        let cut = self.led.cut(pid, tid)?;
        if cut {
            self.threads.insert(tid, (pid, None));
        }
        Ok(cut)
    }

    /// Whose thread ended, if it was watched.
    pub fn ended(&mut self, tid: Tid) -> Option<Pid> {
        self.led.forget(tid);
        self.threads.remove(&tid).map(|(pid, _)| pid)
    }

    fn began(&mut self, tid: Tid) {
        if let Some((_, since)) = self.threads.get_mut(&tid) {
            *since = Some(Instant::now());
        }
    }

    fn since(&self, tid: Tid) -> Option<Instant> {
        self.threads.get(&tid)?.1
    }

    fn due(&mut self, pid: Pid) -> bool {
        let Some(last) = self.procs.get_mut(&pid) else {
            return true;
        };
        let due = last.elapsed() > LOOK_EVERY;
        if due {
            *last = Instant::now();
        }
        due
    }
}

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

/// A thread at the entry or the end of a call. KERNEL: rax is -ENOSYS at every entry; one of our calls that
/// ends so has told nothing.
struct At {
    regs: Regs,
    nr: i64,
    entry: bool,
}

/// Of a thread that stands at a call.
pub fn at_entry(regs: &Regs) -> bool {
    regs.rax as i64 == -i64::from(libc::ENOSYS)
}

fn at(tid: Tid) -> Option<At> {
    let regs = trace::regs(tid).ok()?;
    let entry = at_entry(&regs);
    let nr = regs.orig_rax as i64;
    // KERNEL: __USER_CS; 32-bit programs number their calls differently.
    (regs.cs == 0x33).then_some(At { regs, nr, entry })
}

/// Corrects what a call has told. True at the entry of such a call: its end is to be seen.
fn settle(books: &Books, pid: Pid, tid: Tid, at: &At) -> bool {
    if !cpu_time::tells(at.nr) {
        return false;
    }
    if !at.entry {
        let args = trace::args(&at.regs);
        let (nr, ret) = (at.nr, at.regs.rax as i64);
        let d = Done {
            pid,
            tid,
            nr,
            args,
            ret,
        };
        books.correct(&d, true, &mut Memory { tid, args });
    }
    at.entry
}

/// Is the thread at the entry of a call that would not do what it does untraced?
pub fn needs_freedom(pid: Pid, tid: Tid) -> bool {
    at(tid).is_some_and(|a| a.entry && is_bound(pid, tid, &a))
}

fn is_bound(pid: Pid, tid: Tid, a: &At) -> bool {
    let r = &a.regs;
    match a.nr {
        libc::SYS_ptrace => r.rdi == u64::from(libc::PTRACE_TRACEME),
        libc::SYS_execve => gains(pid, tid, None, r.rdi),
        libc::SYS_execveat => gains(pid, tid, Some(r.rdi as i32), r.rsi),
        _ => false,
    }
}

fn gains(pid: Pid, tid: Tid, dir: Option<i32>, path: u64) -> bool {
    setuid_exec::exec_gains(pid, dir, &setuid_exec::path_at(tid, path)).is_some()
}

/// A stop of a thread at home; `false` when it is none of ours.
pub fn stopped(t: &mut Tree, tid: Tid, stop: Stop) -> bool {
    let Some((pid, _)) = t.watch.threads.get(&tid).copied() else {
        return stop == Stop::Trap && newborn(t, tid);
    };
    let _ = match stop {
        Stop::Signal(sig) => {
            t.watch.led.at_signal(tid, sig);
            trace::resume_to_call(tid, sig)
        }
        Stop::Group(_) => {
            t.watch.led.at_group_stop(tid);
            trace::listen(tid)
        }
        Stop::Call => at_call(t, pid, tid),
        // One that a move let go on may have other options.
        Stop::Trap => trace::set_options(tid, t.passing_options(pid))
            .and_then(|()| trace::resume_to_call(tid, 0)),
        Stop::Event(_) => trace::resume_to_call(tid, 0),
    };
    true
}

/// The first stop of one whom a watched thread has made: a thread, or (by an unusual clone) a process, which is
/// none of ours. Those that deputies make are known by their process.
fn newborn(t: &mut Tree, tid: Tid) -> bool {
    if t.watch.threads.is_empty() {
        return false;
    }
    let Some(s) = t.born_at_home(tid) else {
        return false;
    };
    let _ = if t.watch.has(s.tgid) {
        t.watch.threads.insert(tid, (s.tgid, None));
        trace::resume_to_call(tid, 0)
    } else if t.follow.on {
        return false;
    } else {
        trace::detach(tid, 0)
    };
    true
}

fn at_call(t: &mut Tree, pid: Pid, tid: Tid) -> trace::Result<()> {
    let books = t.keep.cpu.clone();
    let Some(mut a) = at(tid) else {
        return trace::resume_to_call(tid, 0);
    };
    let ours = settle(&books, pid, tid, &a);
    if a.entry {
        t.watch.began(tid);
        t.watch.led.at_entry(tid, a.nr);
    } else {
        wait_on(tid, &mut a.regs, t.watch.since(tid))?;
        t.watch.led.at_end(pid, tid, &mut a.regs)?;
    }
    let led = t.watch.led.has(tid);
    if t.leaving.contains_key(&pid) && (led || t.watch.has(pid)) {
        // Its move holds it.
        return trace::resume_to_call(tid, 0);
    }
    if !ours && t.watch.due(pid) && !books.owes(pid) {
        t.watch.procs.remove(&pid);
    }
    let bound = a.entry && is_bound(pid, tid, &a);
    if led || t.watch.has(pid) && !bound {
        return trace::resume_to_call(tid, 0);
    }
    t.watch.threads.remove(&tid);
    if t.leaving.contains_key(&pid) {
        trace::resume(tid, 0)
    } else if t.follow.on && !bound {
        t.follow_one(tid, pid)
    } else {
        trace::detach(tid, 0)
    }
}

/// Traced, a thread is woken by signals that it ignores, too, and some calls end by that: such a one is issued
/// again, which the kernel does unless a handler runs. Not in time that began anew, where we can tell.
fn wait_on(tid: Tid, r: &mut Regs, since: Option<Instant>) -> trace::Result<()> {
    if r.rax as i64 != -i64::from(libc::EINTR) {
        return Ok(());
    }
    let row = armento_abi::row(r.orig_rax);
    if row.is_none_or(|row| row.restart != Restart::Eintr) || ends_calls(tid) {
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
    r.rax = thread::ERESTARTNOHAND as u64;
    // It must come by the kernel's own look at signals.
    trace::interrupt(tid)?;
    trace::set_regs(tid, r)
}

impl Tree {
    /// A thread that is new to us and that somebody at home has made.
    pub fn born_at_home(&self, tid: Tid) -> Option<status::ProcStatus> {
        let s = status::read(tid)
            .ok()
            .filter(|_| !self.passing.contains(&tid))?;
        (!self.made_away(tid, &s)).then_some(s)
    }

    /// Is it a deputy, or has one made it? A thread at home may have a parent that is away.
    pub fn made_away(&self, tid: Tid, s: &status::ProcStatus) -> bool {
        let away = |pid| self.procs.get(&pid).is_some_and(|p| p.link().is_some());
        away(s.tgid) || s.tgid == tid && away(s.ppid)
    }

    /// What a grip on the process does at stops of its calls.
    pub fn calls_of(&self, pid: Pid) -> Calls {
        let books = self.watch.has(pid).then(|| self.keep.cpu.clone());
        let led = self.watch.led.clone();
        led.forget_ended(pid);
        Arc::new(move |tid| {
            let Some(mut a) = at(tid) else {
                return false;
            };
            let tells = books.as_ref().is_some_and(|b| settle(b, pid, tid, &a));
            if a.entry {
                led.at_entry(tid, a.nr);
            } else if led.has(tid) {
                // One that died meanwhile needs nothing.
                let _ = wait_on(tid, &mut a.regs, None);
                let _ = led.at_end(pid, tid, &mut a.regs);
            }
            tells || a.entry && led.has(tid)
        })
    }

    /// How a process is seized that goes on at home while it is copied.
    pub fn passing_options(&self, pid: Pid) -> u64 {
        if self.follow.on {
            trace::FOLLOW
        } else if self.watch.has(pid) {
            WATCHED
        } else {
            trace::WATCH
        }
    }

    /// Lets a process run on that stays in the hand of its move. Before: its options are set.
    pub fn run_on(&mut self, pid: Pid, grip: &mut Grip) {
        for h in std::mem::take(&mut grip.halted) {
            let led = self.watch.led.look(pid, &h);
            if led {
                self.watch.threads.insert(h.tid, (pid, None));
            }
            let go = if led || self.watch.has(pid) {
                trace::resume_to_call
            } else {
                trace::resume
            };
            let _ = h.go(go);
        }
    }

    /// Lets a process at home go on: untraced, or watched. A thread that must be led is watched so long.
    pub fn go_on(&mut self, pid: Pid, mut grip: Grip) {
        for tid in &grip.seized {
            self.passing.remove(tid);
        }
        let tied = self.procs.get(&pid).is_some_and(|p| p.tied);
        if self.keep.cpu.owes(pid) && !tied {
            return self.watch_all(pid, grip);
        }
        grip.stop_seized();
        self.watch.procs.remove(&pid);
        self.watch.threads.retain(|_, (p, _)| *p != pid);
        let led = self.watch.led.clone();
        for h in grip.halted.extract_if(.., |h| led.look(pid, h)) {
            grip.seized.remove(&h.tid);
            self.watch.threads.insert(h.tid, (pid, None));
            let _ = watch_on(&h, self.passing_options(pid));
        }
        if self.follow.on && !tied {
            return self.follow_all(pid, grip);
        }
        grip.release();
    }

    fn watch_all(&mut self, pid: Pid, grip: Grip) {
        self.watch.procs.insert(pid, Instant::now());
        let options = self.passing_options(pid);
        for &tid in &grip.seized {
            self.watch.threads.insert(tid, (pid, None));
            if !grip.halted.iter().any(|h| h.tid == tid) {
                // It goes on to its next call from the stop that this makes.
                let _ = trace::interrupt(tid);
            }
        }
        for h in grip.disband() {
            self.watch.led.look(pid, &h);
            // A thread that died meanwhile needs nothing.
            let _ = watch_on(&h, options);
        }
    }
}

fn watch_on(h: &Halted, options: u64) -> trace::Result<()> {
    trace::set_options(h.tid, options)?;
    h.go(trace::resume_to_call)
}
