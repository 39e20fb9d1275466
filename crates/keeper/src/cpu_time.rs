//! CPU time that the processes of a tree used away, and what they read of it.
//!
//! From: `keeper/src/calls/dispatch.rs`, `keeper/src/moves/restore_threads.rs` (what hosts report). Next:
//! `keeper/src/moves/freeze.rs` (it travels), `keeper/src/traced/cpu_clock_fixup.rs` (at home).
//!
//! A body's host adds what its own process used. What only home knows is added here: the time of children, which
//! their parents read when they have waited for them.

use crate::sync::lock;
use armento_abi::{Counts, CpuClock, Out, counts, cpu_clock};
use armento_migrate::image::{Cpu, State};
use armento_model::{CpuTime, Pid, Shown, Tid};
use armento_tracee::{cpu, status, usage};
use std::collections::HashMap;
use std::sync::Mutex;

/// When there are more accounts, those of processes that ended are dropped: few parents read their times.
const ACCOUNTS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    away: CpuTime,
    shown: Shown,
    /// What home's kernel said when it came: one that says less later has only the same number.
    home_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Account {
    away: CpuTime,
    shown: Shown,
    threads: HashMap<Tid, Thread>,
    /// Used away by children that it has waited for, and by theirs.
    children: CpuTime,
    children_shown: Shown,
}

/// Shared by the tracer thread and the deputies' waiters. A lock for a moment only.
#[derive(Default)]
pub struct CpuAccounts(Mutex<HashMap<Pid, Account>>);

/// A call that has returned.
#[derive(Clone, Copy, Debug)]
pub struct ReturnedCall {
    pub pid: Pid,
    pub tid: Tid,
    pub nr: i64,
    pub args: [u64; 6],
    pub ret: i64,
}

/// What a call wrote for its caller.
pub trait Written {
    /// Changes the struct behind argument `arg`, `len` bytes long, or its beginning. Nothing happens when there
    /// is none.
    fn change(&mut self, arg: usize, len: usize, f: &mut dyn FnMut(&mut [u8]));
}

/// Results of a call on their way to a body: told apart by their lengths.
pub struct Results<'a>(pub &'a [Out], pub &'a mut [u8]);

impl Written for Results<'_> {
    fn change(&mut self, _: usize, len: usize, f: &mut dyn FnMut(&mut [u8])) {
        let mut at = 0;
        for o in self.0 {
            let end = at + o.len as usize;
            match self.1.get_mut(at..end) {
                Some(b) if b.len() == len => return f(b),
                // What an error left out.
                None => return,
                _ => at = end,
            }
        }
    }
}

/// Bytes of siginfo_t as waitid fills it. KERNEL: up to si_status.
const SIGINFO: usize = 28;
/// Bytes of a wait status.
const STATUS: usize = 4;

/// Whether a call tells CPU time, in part or in whole.
pub fn tells(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_clock_gettime
            | libc::SYS_getrusage
            | libc::SYS_times
            | libc::SYS_wait4
            | libc::SYS_waitid
    )
}

impl CpuAccounts {
    /// A process begins: one that had its number before is no more.
    pub fn begin(&self, pid: Pid) {
        let mut all = lock(&self.0);
        if all.len() >= ACCOUNTS_MAX {
            // A parent that has not waited for one of these at all reads less.
            all.retain(|pid, _| status::read(*pid).is_ok());
        }
        all.insert(pid, Account::default());
    }

    /// Used away so far.
    pub fn reported(&self, pid: Pid, away: CpuTime) {
        let mut all = lock(&self.0);
        let a = all.entry(pid).or_default();
        if away.total_ns() > a.away.total_ns() {
            a.away = away;
        }
    }

    pub fn away(&self, pid: Pid) -> CpuTime {
        lock(&self.0)
            .get(&pid)
            .map_or_else(CpuTime::default, |a| a.away)
    }

    pub fn thread_reported(&self, pid: Pid, tid: Tid, away: CpuTime) {
        let mut all = lock(&self.0);
        all.entry(pid)
            .or_default()
            .threads
            .entry(tid)
            .or_default()
            .away = away;
    }

    /// A process came home with this state.
    pub fn came_home(&self, pid: Pid, state: &State) {
        self.reported(pid, state.cpu.away);
        let threads = state.threads.iter().map(|t| {
            let thread = Thread {
                away: t.cpu.away,
                shown: t.cpu.shown,
                home_ns: cpu::thread_ns(t.tid),
            };
            (t.tid, thread)
        });
        let threads = threads.collect();
        let mut all = lock(&self.0);
        let a = all.entry(pid).or_default();
        a.shown = state.cpu.shown;
        a.threads = threads;
    }

    /// What goes along with a process that leaves home.
    pub fn leaves(&self, pid: Pid) -> Cpu {
        let home = cpu::process(pid);
        let (away, shown) = lock(&self.0)
            .get(&pid)
            .map_or_else(Default::default, |a| (a.away, a.shown));
        Cpu { home, away, shown }
    }

    pub fn thread_leaves(&self, pid: Pid, tid: Tid) -> Cpu {
        let home = cpu::thread(tid);
        let t = self
            .thread(pid, tid)
            .filter(|t| t.home_ns <= home.total_ns());
        let t = t.unwrap_or_default();
        Cpu {
            home,
            away: t.away,
            shown: t.shown,
        }
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Option<Thread> {
        lock(&self.0).get(&pid)?.threads.get(&tid).copied()
    }

    pub fn thread_ended(&self, pid: Pid, tid: Tid) {
        if let Some(a) = lock(&self.0).get_mut(&pid) {
            a.threads.remove(&tid);
        }
    }

    /// A new image has read nothing yet. Of its threads the one is left that was `former`.
    pub fn execed(&self, pid: Pid, former: Tid) {
        if let Some(a) = lock(&self.0).get_mut(&pid) {
            let left = a.threads.remove(&former).map(|t| {
                let shown = Shown::default();
                (pid, Thread { shown, ..t })
            });
            a.threads = left.into_iter().collect();
            (a.shown, a.children_shown) = Default::default();
        }
    }

    /// Whether the process, at home, would read less from its kernel than it has read before.
    pub fn must_correct(&self, pid: Pid) -> bool {
        let Some(a) = lock(&self.0).get(&pid).cloned() else {
            return false;
        };
        let nothing = Shown::default();
        let of =
            |shown: &Shown, says: &dyn Fn() -> Shown| *shown != nothing && shown.beyond(&says());
        let children = || Shown {
            split: cpu::children_says(pid),
            ..nothing
        };
        of(&a.shown, &|| cpu::process_says(pid))
            || of(&a.children_shown, &children)
            || a.threads
                .iter()
                .any(|(tid, t)| of(&t.shown, &|| cpu::thread_says(*tid)))
    }

    /// Adds what was used away to what a call told. `own`: the caller is at home, where its own time is not added by a
    /// host.
    pub fn correct(&self, d: &ReturnedCall, own: bool, w: &mut dyn Written) {
        match d.nr {
            libc::SYS_clock_gettime if d.ret == 0 => self.clock(d, own, w),
            libc::SYS_getrusage if d.ret == 0 => self.rusage(d, own, w),
            libc::SYS_times if d.ret >= 0 => self.times(d, own, w),
            libc::SYS_wait4 if d.ret > 0 => self.wait4(d, w),
            libc::SYS_waitid if d.ret == 0 => self.waitid(d, w),
            _ => {}
        }
    }

    fn clock(&self, d: &ReturnedCall, own: bool, w: &mut dyn Written) {
        let id = d.args[0] as i32;
        let by = |t: CpuTime| counts(id).of(t.user_ns, t.system_ns);
        let mut all = lock(&self.0);
        let (ns, shown) = match cpu_clock(id, d.pid, d.tid) {
            Some(CpuClock::Process(pid)) if own || pid != d.pid => {
                let Some(a) = all.get_mut(&pid) else { return };
                (by(a.away), (pid == d.pid).then_some(&mut a.shown))
            }
            Some(CpuClock::Thread(tid)) if own => {
                let t = all.get_mut(&d.pid).and_then(|a| a.threads.get_mut(&tid));
                let Some(t) = t else { return };
                (by(t.away), Some(&mut t.shown))
            }
            _ => return,
        };
        let mut said = 0;
        w.change(1, usage::TIMESPEC, &mut |b| {
            said = usage::add_to_timespec(b, ns)
        });
        // A sampled clock may be beyond the exact one.
        if let Some(shown) = shown.filter(|_| counts(id) == Counts::Exact) {
            shown.clock(said);
        }
    }

    fn rusage(&self, d: &ReturnedCall, own: bool, w: &mut dyn Written) {
        let mut all = lock(&self.0);
        let Some(a) = all.get_mut(&d.pid) else { return };
        let (t, shown) = match d.args[0] as i32 {
            libc::RUSAGE_SELF if own => (a.away, &mut a.shown),
            libc::RUSAGE_CHILDREN => (a.children, &mut a.children_shown),
            libc::RUSAGE_THREAD if own => match a.threads.get_mut(&d.tid) {
                Some(t) => (t.away, &mut t.shown),
                None => return,
            },
            _ => return,
        };
        w.change(1, usage::RUSAGE, &mut |b| {
            shown.split(usage::add_to_rusage(b, t))
        });
    }

    fn times(&self, d: &ReturnedCall, own: bool, w: &mut dyn Written) {
        let mut all = lock(&self.0);
        let Some(a) = all.get_mut(&d.pid) else { return };
        let mine = if own { a.away } else { CpuTime::default() };
        w.change(0, usage::TMS, &mut |b| {
            let (me, children) = usage::add_to_tms(b, mine, a.children);
            if own {
                a.shown.split(me);
            }
            a.children_shown.split(children);
        });
    }

    fn wait4(&self, d: &ReturnedCall, w: &mut dyn Written) {
        let child = d.ret as Pid;
        let mut status = None;
        w.change(1, STATUS, &mut |b| {
            status = b.try_into().ok().map(i32::from_le_bytes)
        });
        let running = libc::WUNTRACED | libc::WCONTINUED;
        let ended = match status {
            Some(s) => libc::WIFEXITED(s) || libc::WIFSIGNALED(s),
            None => d.args[2] as i32 & running == 0,
        };
        self.waited(d.pid, child, ended, 3, w);
    }

    fn waitid(&self, d: &ReturnedCall, w: &mut dyn Written) {
        let (mut child, mut code) = (0, 0);
        w.change(2, SIGINFO, &mut |b| {
            let word = |at: usize| b.get(at..at + 4).and_then(|w| w.try_into().ok());
            // KERNEL: si_code is the third word, si_pid the fourth.
            code = word(8).map_or(0, i32::from_le_bytes);
            child = word(12).map_or(0, i32::from_le_bytes);
        });
        let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
        let ended = ends.contains(&code) && d.args[3] as i32 & libc::WNOWAIT == 0;
        if child > 0 {
            self.waited(d.pid, child, ended, 4, w);
        }
    }

    /// KERNEL: a wait tells what the child and those used that it had waited for; all of it becomes the
    /// parent's when the child has ended.
    fn waited(&self, parent: Pid, child: Pid, ended: bool, arg: usize, w: &mut dyn Written) {
        let mut all = lock(&self.0);
        let Some(t) = all.get(&child).map(|c| c.away + c.children) else {
            return;
        };
        w.change(arg, usage::RUSAGE, &mut |b| {
            usage::add_to_rusage(b, t);
        });
        if ended {
            all.remove(&child);
            let p = all.entry(parent).or_default();
            p.children = p.children + t;
        }
    }
}

#[cfg(test)]
mod tests;
