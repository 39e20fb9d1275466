//! The results of calls that tell CPU time: what was used away is added.
//!
//! From: `keeper/src/deputy/wait_loop.rs` (a body's call), `keeper/src/traced/cpu_clock_fixup.rs` (at home).
//! Next: `accounts.rs`.

use super::accounts::CpuAccounts;
use crate::sync::lock;
use armento_abi::{Counts, CpuClock, Out, counts, cpu_clock};
use armento_model::{CpuTime, Pid, Tid};
use armento_tracee::usage;

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
pub(super) const SIGINFO: usize = 28;

/// Bytes of a wait status.
pub(super) const STATUS: usize = 4;

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
