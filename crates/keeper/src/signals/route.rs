//! What deputies report: signals go to the body, stops of job control happen here, calls are broken.
//!
//! A deputy's kernel sees a signal first. It is taken away from the deputy, sent to the body, and only
//! then is the interrupted call's result let out: the body's kernel gets them in that order.

use crate::deputy::thread::{Deputy, Work};
use crate::hosts::connect::HostLink;
use crate::moves::run::{Task, Why};
use crate::signals::coredump;
use crate::state::keeper::Keep;
use crate::state::tree::{Proc, Tree};
use crate::traced::cpu_clock_fixup;
use crate::traced::follow_forks;
use crate::traced::setuid_exec;
use armento_abi::Restart;
use armento_client::api::Dest;
use armento_migrate::MigrateError;
use armento_migrate::image::thread::{ERESTARTNOHAND, ERESTARTNOINTR};
use armento_migrate::image::timers;
use armento_migrate::stop::{Halted, delicate_call};
use armento_model::{Pid, Tid};
use armento_tracee::inject::{Hold, Unfiltered, bit};
use armento_tracee::region::Code;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::timers::list as timers_of;
use armento_tracee::trace::{self, Status, Stop};
use armento_tracee::{owners, status};
use armento_wire::call::Call;
use armento_wire::talk::{Signal, ToHost};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A deputy stops in microseconds, on a loaded machine in some ticks. Given up, its body would wait for ever.
const STOP_MAX: Duration = Duration::from_secs(5);
const STOPS: u64 =
    bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);
/// Signals for children that are not known yet, which takes as long as a message between two threads.
const EARLY_MAX: usize = 1024;

pub fn stopped(t: &mut Tree, tid: Tid, stop: Stop) {
    if t.loads(tid, stop) {
        return;
    }
    let Some(pid) = t.keep.deputy(tid).map(|d| d.pid) else {
        if !cpu_clock_fixup::stopped(t, tid, stop) && !follow_forks::stopped(t, tid, stop) {
            pass(t, tid, stop);
        }
        return;
    };
    match stop {
        Stop::Signal(_) => signal(t, pid, tid),
        Stop::Group(_) => drop(trace::listen(tid)),
        Stop::Trap => {
            let p = t.procs.get_mut(&pid).filter(|p| p.stopped);
            if let Some(p) = p {
                // SIGCONT ended the stop.
                p.stopped = false;
                if let Some(l) = p.link() {
                    l.tell(&ToHost::Continue { pid });
                }
            }
            if let (Some(d), Some(code)) = (t.keep.deputy(tid), t.code_of(pid))
                && t.open_up(&d)
            {
                // A call that any stop ends is issued again.
                let _ = force_result(&t.keep, tid, &code, false);
            }
            let _ = trace::resume(tid, 0);
        }
        Stop::Event(_) | Stop::Call => drop(trace::resume(tid, 0)),
    }
}

/// A thread of a process at home, seized on the way out or in: nothing of ours. Or a deputy's child that nobody
/// knows yet: what comes for it is kept until it is known.
fn pass(t: &mut Tree, tid: Tid, stop: Stop) {
    let _ = match stop {
        Stop::Signal(sig) if t.passing.contains(&tid) || !newborn(t, tid) => {
            trace::resume(tid, sig)
        }
        Stop::Signal(_) => {
            if let Ok(info) = trace::siginfo(tid)
                && t.early.len() < EARLY_MAX
            {
                t.early.push((tid, info));
            }
            trace::resume(tid, 0)
        }
        Stop::Group(_) => trace::listen(tid),
        _ => trace::resume(tid, 0),
    };
}

/// Was it made by a deputy?
fn newborn(t: &Tree, tid: Tid) -> bool {
    status::read(tid).is_ok_and(|s| t.made_away(tid, &s))
}

/// A child of a deputy is known now.
pub fn known(t: &mut Tree, pid: Pid, tid: Tid) {
    for (_, info) in t
        .early
        .extract_if(.., |(to, _)| *to == tid)
        .collect::<Vec<_>>()
    {
        hand_on(t, pid, tid, &info);
    }
}

/// To the body, or kept for it while it moves.
fn hand_on(t: &mut Tree, pid: Pid, tid: Tid, info: &SigInfo) {
    let directed = thread_directed(&t.keep, pid, tid, info).then_some(tid);
    let Some(p) = t.procs.get_mut(&pid) else {
        return;
    };
    if p.common.breaking.load(Ordering::Acquire) {
        timers::hold(&mut p.held, directed, info);
    } else if p.backs_up() {
        p.wait(directed, info);
        t.backlog = true;
    } else {
        p.pass_on(directed, info);
    }
}

/// SIGCONT throws away a stop that waits. Taken by two deputies, the two have lost their order: whoever waits to see
/// a process go on and then stops it again is to see it stop.
fn go_on_first(t: &mut Tree, pid: Pid, tid: Tid) {
    let p = t.procs.get(&pid);
    let tids: Vec<Tid> = p.map_or_else(Vec::new, |p| p.threads.keys().copied().collect());
    for other in tids.into_iter().filter(|other| *other != tid) {
        if let Ok(status) = trace::wait_for(other, Duration::ZERO) {
            armento_tracee::hand::World::report(t, other, status);
        }
    }
}

/// The signals of halted threads in the order in which they are handed on: see [`go_on_first`].
pub fn in_order(halted: &[Halted]) -> Vec<(Tid, SigInfo)> {
    let with = halted.iter().filter_map(|h| Some((h.tid, h.signal?)));
    let mut all: Vec<_> = with.collect();
    all.sort_by_key(|(_, (sig, _))| *sig != libc::SIGCONT);
    all.into_iter()
        .map(|(tid, (_, info))| (tid, info))
        .collect()
}

fn signal(t: &mut Tree, pid: Pid, tid: Tid) {
    let Ok(info) = trace::siginfo(tid) else {
        return;
    };
    if STOPS & bit(info[0].into()) != 0 {
        go_on_first(t, pid, tid);
    }
    hand_on(t, pid, tid, &info);
    if let Some(code) = t.code_of(pid) {
        let exec = turn_back_exec(&t.keep, tid);
        let _ = force_result(&t.keep, tid, &code, exec);
    }
    if let Some(d) = t.keep.deputy(tid) {
        t.shut_out(&d, &info);
    }
    let _ = trace::resume(tid, 0);
}

/// An exec would end the body, and with it the signal that is on its way there: it is issued again when
/// the body has had it. True when the deputy may have picked it up already.
fn turn_back_exec(keep: &Keep, tid: Tid) -> bool {
    let Some(d) = keep.deputy(tid) else {
        return false;
    };
    if let Some(c) = d.recall(|c| is_exec(c.packed.nr)) {
        d.link().reply(tid, c.seq, ERESTARTNOINTR, &[]);
        return false;
    }
    d.call_nr().is_some_and(is_exec) && !d.turn_back(|_| ERESTARTNOINTR)
}

pub fn is_exec(nr: u16) -> bool {
    matches!(i64::from(nr), libc::SYS_execve | libc::SYS_execveat)
}

/// Was it meant for this thread alone? Which deputy took it says nothing: the kernel passes over one that has a
/// signal already, or stands still. Asked once a signal.
pub fn thread_directed(keep: &Keep, pid: Pid, tid: Tid, info: &SigInfo) -> bool {
    let word = |at: usize| i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default());
    match sys::siginfo_code(info) {
        libc::SI_TKILL => true,
        libc::SI_TIMER => {
            let all = timers_of(pid);
            let timer = all.iter().find(|t| Some(t.id) == timers::timer_of(info));
            // One that was deleted meanwhile tells no more.
            timer.map_or(tid != pid, |t| t.thread == Some(tid))
        }
        // KERNEL: what the thread's own write has earned it (send_sig to current) says that it sent it, as kill(2) does.
        libc::SI_USER if [libc::SIGPIPE, libc::SIGXFSZ].contains(&word(0)) => {
            word(16) == pid && wrote_in_vain(tid)
        }
        _ => keep.aimed.hit(tid, info) || owners::for_thread(pid, tid, info),
    }
}

/// Whether the call that a stopped thread ends just now says EPIPE or EFBIG.
fn wrote_in_vain(tid: Tid) -> bool {
    let ret = trace::regs(tid).map(|r| -(r.rax as i64));
    ret.is_ok_and(|e| [libc::EPIPE, libc::EFBIG].contains(&(e as i32)))
}

/// Sends a signal that was taken from a process to it again.
pub fn send_again(pid: Pid, info: &SigInfo) {
    let sig = i32::from(info[0]);
    // KERNEL: rt_sigqueueinfo refuses others what kill(2) and the kernel say (si_code >= 0, SI_TKILL).
    if sys::sigqueue(pid, None, sig, info).is_err() {
        let _ = sys::kill(pid, sig);
    }
}

/// Where the deputy's thread is, by its program counter.
#[derive(Debug, PartialEq, Eq)]
enum At {
    /// Not in a call of its body (or in one that has ended).
    Elsewhere,
    /// It has picked the call up but not made it.
    Before,
    /// In the call, interrupted.
    Interrupted,
    /// At its end, with a result above 0: maybe a part of what it would have put, or got.
    Done(u64),
}

fn place(r: &trace::Regs, code: &Code, eintr: bool) -> At {
    let ret = r.rax as i64;
    if r.rip == code.after && (r.orig_rax as i64) >= 0 {
        let restart = (-516..=-512).contains(&ret) || eintr && ret == -i64::from(libc::EINTR);
        return match u64::try_from(ret) {
            _ if restart => At::Interrupted,
            Ok(some @ 1..) => At::Done(some),
            _ => At::Elsewhere,
        };
    }
    if r.rip > code.idle + 2 && r.rip <= code.call {
        At::Before
    } else {
        At::Elsewhere
    }
}

/// Makes an interrupted (or not yet made) call of a stopped deputy end with the kernel's restart error
/// instead of being restarted here; one that was interrupted in its midst, too, with what it has put or got. Returns
/// whether it did. `unmade`: turn back calls not yet made, too.
fn force_result(keep: &Keep, tid: Tid, code: &Code, unmade: bool) -> trace::Result<bool> {
    let Some(d) = keep.deputy(tid) else {
        return Ok(false);
    };
    let Some(nr) = d.call_nr() else {
        return Ok(false);
    };
    let eintr = armento_abi::row(nr.into()).is_some_and(|r| r.restart == Restart::Eintr);
    let mut r = trace::regs(tid)?;
    match place(&r, code, eintr) {
        At::Interrupted => {
            if r.rax as i64 == -i64::from(libc::EINTR) {
                r.rax = ERESTARTNOHAND as u64;
            }
        }
        At::Before if unmade => {
            r.rip = code.after;
            r.rax = unmade_result(nr) as u64;
        }
        At::Done(done) if d.read_short(done) => r.rax = ERESTARTNOINTR as u64,
        At::Done(done) if d.cut_short(done) => {}
        _ => return Ok(false),
    }
    r.orig_rax = u64::MAX;
    trace::set_regs(tid, &r)?;
    Ok(true)
}

/// What a call ends with that was turned back before it was made. One that sleeps would have been
/// interrupted, for its thread was in it already; any other is issued again whatever happens.
pub fn unmade_result(nr: u16) -> i64 {
    const SLEEPS: [i64; 4] = [
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_ppoll,
        libc::SYS_nanosleep,
    ];
    let blocks = armento_abi::row(nr.into()).is_some_and(|r| r.restart == Restart::Block);
    if blocks || SLEEPS.contains(&i64::from(nr)) || (libc::SYS_epoll_wait == i64::from(nr)) {
        ERESTARTNOHAND
    } else {
        ERESTARTNOINTR
    }
}

/// What an exec on its way to a deputy would give it.
fn exec_gains(pid: Pid, c: &Call) -> Option<&'static str> {
    let at = i64::from(c.packed.nr) == libc::SYS_execveat;
    let path = c.packed.args[usize::from(at)] as usize;
    let path = c.packed.data.get(path..)?.split(|b| *b == 0).next()?;
    setuid_exec::exec_gains(pid, at.then_some(c.packed.args[0] as i32), path)
}

impl Tree {
    /// The body asks for an exec: only when it has had every signal that we sent.
    pub fn exec(&mut self, d: &Deputy, c: Box<Call>) {
        let late = self.procs.get_mut(&d.pid).is_none_or(Proc::owed_signals);
        let again = || d.link().reply(c.tid, c.seq, ERESTARTNOINTR, &[]);
        // The new program would begin with what the deputy blocks.
        if late || self.shut.contains_key(&d.tid) || d.common.breaking.load(Ordering::Acquire) {
            return again();
        }
        if exec_gains(d.pid, &c).is_some() {
            // A deputy is traced: it would get the program but not its rights.
            return setuid_exec::exec_untraced(self, d, c);
        }
        d.submit(Work::Call(c));
    }

    /// The body has a signal for a thread whose call is still on its way to its deputy, or in it.
    pub fn nudge(&mut self, tid: Tid, seq: u32) {
        self.keep.looks.nudge(tid, seq);
        let Some(d) = self.keep.deputy(tid) else {
            return;
        };
        if let Some(c) = d.recall(|c| c.seq == seq) {
            return d.link().reply(tid, seq, unmade_result(c.packed.nr), &[]);
        }
        if !d.at_call(seq) {
            return;
        }
        if let Some(code) = self.code_of(d.pid) {
            self.break_call(tid, &code);
        }
    }

    pub fn code_of(&self, pid: Pid) -> Option<Code> {
        self.procs.get(&pid)?.region.as_ref().map(|r| r.code())
    }

    /// Is it in a call that must not be broken? Before: no new one is made meanwhile.
    pub fn unbroken(&self, pid: Pid) -> armento_migrate::Result<()> {
        let p = self.procs.get(&pid).ok_or(MigrateError::Ended)?;
        let calls = p.threads.values().filter_map(|d| d.call());
        calls
            .into_iter()
            .try_for_each(|(nr, args)| delicate_call(pid, nr, &args))
    }

    /// Breaks every call of a body that waits at home, and turns new ones back, until the move is over.
    pub fn break_calls(&mut self, pid: Pid) {
        let Some(code) = self.code_of(pid) else {
            return;
        };
        let Some(p) = self.procs.get_mut(&pid) else {
            return;
        };
        p.froze = Some(std::time::Instant::now());
        p.common.breaking.store(true, Ordering::Release);
        self.keep.looks.turn_back(pid);
        if let Some(calls) = &self.keep.storm_call {
            calls.turn_back(pid);
        }
        let tids: Vec<Tid> = p.threads.keys().copied().collect();
        for tid in tids {
            self.break_call(tid, &code);
        }
    }

    fn break_call(&mut self, tid: Tid, code: &Code) {
        let Some(d) = self.keep.deputy(tid) else {
            return;
        };
        if let Some(c) = d.recall(|_| true) {
            // It waits behind something of ours, and would be made when that is done.
            return d.link().reply(tid, c.seq, unmade_result(c.packed.nr), &[]);
        }
        // Bounded: each round either ends the call or finds it between two instructions.
        for _ in 0..100 {
            if !d.in_call() {
                return;
            }
            if d.turn_back(unmade_result) {
                return;
            }
            if trace::interrupt(tid).is_err() {
                return;
            }
            match trace::wait_for(tid, STOP_MAX) {
                Ok(Status::Stopped(Stop::Trap)) => {
                    let forced = force_result(&self.keep, tid, code, true).unwrap_or(false);
                    let _ = trace::resume(tid, 0);
                    if forced {
                        return;
                    }
                    std::thread::sleep(Duration::from_micros(20));
                }
                Ok(s) => armento_tracee::hand::World::report(self, tid, s),
                Err(_) => return,
            }
        }
    }

    /// The body has no handler for a signal: home's kernel does what it does by default.
    pub fn take_default(
        &mut self,
        link: &Arc<HostLink>,
        pid: Pid,
        tid: Tid,
        sig: i32,
        info: &Signal,
    ) {
        let answer = |stopped| link.tell(&ToHost::Defaulted { pid, tid, stopped });
        let Some(code) = self.code_of(pid) else {
            return;
        };
        let p = self.procs.get_mut(&pid);
        let p = p.filter(|p| p.link().is_some_and(|l| Arc::ptr_eq(l, link)));
        let p = p.filter(|p| p.threads.contains_key(&tid));
        let Some(p) = p else { return };
        if p.dumps < coredump::TRIES && coredump::wanted(pid, sig) {
            p.dumps += 1;
            link.tell(&ToHost::Dumps { pid, tid });
            let (to, why) = (Dest::Home, Why::Dump);
            return self.keep.tasks.push_urgent(Task { pid, to, why });
        }
        if !self.stop_one(tid, &code) {
            return;
        }
        let info: SigInfo = info.0.as_slice().try_into().unwrap_or([0; 128]);
        if deliver(tid, &code, sig, &info).is_err() {
            return;
        }
        // What did the kernel make of it? A stop of ours tells.
        let _ = trace::interrupt(tid);
        loop {
            match trace::wait_for(tid, STOP_MAX) {
                Ok(Status::Stopped(Stop::Group(_))) => {
                    let _ = trace::listen(tid);
                    if let Some(p) = self.procs.get_mut(&pid) {
                        p.stopped = true;
                    }
                    return answer(true);
                }
                Ok(Status::Stopped(Stop::Trap)) => {
                    let _ = trace::resume(tid, 0);
                    return answer(false);
                }
                Ok(s @ (Status::Exited(_) | Status::Killed(_))) => {
                    return armento_tracee::hand::World::report(self, tid, s);
                }
                Ok(s) => armento_tracee::hand::World::report(self, tid, s),
                Err(_) => return,
            }
        }
    }

    /// Stops one deputy; its call, if any, is turned back.
    pub fn stop_one(&mut self, tid: Tid, code: &Code) -> bool {
        if trace::interrupt(tid).is_err() {
            return false;
        }
        loop {
            match trace::wait_for(tid, STOP_MAX) {
                Ok(Status::Stopped(Stop::Trap)) => {
                    let _ = force_result(&self.keep, tid, code, true);
                    return true;
                }
                Ok(s @ Status::Stopped(_)) => armento_tracee::hand::World::report(self, tid, s),
                Ok(s) => {
                    armento_tracee::hand::World::report(self, tid, s);
                    return false;
                }
                Err(_) => return false,
            }
        }
    }
}

/// Delivers `sig` to a stopped deputy with its default disposition.
fn deliver(tid: Tid, code: &Code, sig: i32, info: &SigInfo) -> trace::Result<()> {
    let mut h = Hold::take(tid, Arc::new(Unfiltered))?;
    let act = code.scratch(0x700, &[0u8; 32]);
    h.call(code, libc::SYS_rt_sigaction, [sig as u64, act, 0, 8, 0, 0])?;
    // The thread is in the stop of our trap, a signal stop: another signal can be put in its place. To let it
    // ignore SIGTRAP again would end in a stop that takes none.
    h.ignore_trap(false);
    drop(h);
    let _ = trace::set_siginfo(tid, info);
    trace::resume(tid, sig)
}
