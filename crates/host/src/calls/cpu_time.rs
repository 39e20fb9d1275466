//! CPU time of a guest: used here, plus what it used elsewhere before.
//!
//! A clock is answered here, getrusage and times by home, whose kernel counts what the deputy did for it; what
//! was used away is added to either.

use crate::calls::forward;
use crate::state::shared::{Cell, Fix, Proc, Shared, lock};
use armento_abi::{Counts, CpuClock, counts, cpu_clock};
use armento_migrate::image::Cpu;
use armento_model::CpuTime;
use armento_tracee::notify::Notice;
use armento_tracee::{cpu, sys, usage};
use std::sync::Arc;

/// RUSAGE_SELF and RUSAGE_THREAD.
const SELF: i32 = libc::RUSAGE_SELF;
const THREAD: i32 = libc::RUSAGE_THREAD;

/// The time of one process or thread: what came with it, and what the kernel here said last.
#[derive(Default)]
pub struct Account {
    pub carried: Cpu,
    here: CpuTime,
}

impl Account {
    /// Used away in all. `now`: what the kernel here says.
    fn away(&mut self, now: CpuTime) -> CpuTime {
        self.here = now.not_before(self.here);
        self.carried.away + self.here
    }

    /// What its clock shows when the kernel here says `here_ns`.
    fn clock_ns(&mut self, here_ns: u64) -> u64 {
        let before = self.carried.home + self.carried.away;
        let ns = before.total_ns() + here_ns;
        self.carried.shown.clock(ns);
        ns
    }

    /// What a clock of ticks shows when the kernel here counted `here`. What was used elsewhere is known exactly only.
    fn sampled_ns(&self, by: Counts, here: CpuTime) -> u64 {
        let t = self.carried.home + self.carried.away + here;
        by.of(t.user_ns, t.system_ns)
    }

    /// As it goes on.
    fn travels(&mut self, now: CpuTime) -> Cpu {
        Cpu {
            away: self.away(now),
            ..self.carried
        }
    }
}

/// CPU that the process used away, up to now.
pub fn away(proc: &Proc) -> CpuTime {
    lock(&proc.cpu).away(cpu::process(proc.here))
}

pub fn thread_away(cell: &Cell) -> CpuTime {
    lock(&cell.cpu).away(cpu::thread(cell.here))
}

/// Before: frozen.
pub fn process_travels(proc: &Proc) -> Cpu {
    lock(&proc.cpu).travels(cpu::process(proc.here))
}

/// Before: frozen.
pub fn thread_travels(cell: &Cell) -> Cpu {
    lock(&cell.cpu).travels(cpu::thread(cell.here))
}

/// clock_gettime of a CPU clock of its own; everything else is home's business.
pub fn clock(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let wanted = (i64::from(n.nr) == libc::SYS_clock_gettime)
        .then(|| own_ns(sh, cell, n.args[0] as i32))
        .flatten();
    let Some(ns) = wanted else {
        return forward::send_fixed(sh, cell, n, Fix::None);
    };
    let mut ts = [0u8; usage::TIMESPEC];
    usage::add_to_timespec(&mut ts, ns);
    let ok = cell.write(n.args[1], &ts);
    sh.listener
        .reply(n.id, if ok { 0 } else { -i64::from(libc::EFAULT) });
}

fn own_ns(sh: &Shared, cell: &Arc<Cell>, id: i32) -> Option<u64> {
    let by = counts(id);
    match cpu_clock(id, cell.pid, cell.tid)? {
        CpuClock::Process(pid) if pid == cell.pid => {
            let here = cell.proc.here;
            let account = &cell.proc.cpu;
            Some(match by {
                Counts::Exact => lock(account).clock_ns(cpu::process_ns(here)),
                _ => lock(account).sampled_ns(by, cpu::process_ticks(here)),
            })
        }
        CpuClock::Thread(tid) => {
            let of = sh.cell_of(tid).filter(|c| c.pid == cell.pid)?;
            Some(match by {
                Counts::Exact => lock(&of.cpu).clock_ns(cpu::thread_ns(of.here)),
                _ => lock(&of.cpu).sampled_ns(by, cpu::thread_ticks(of.here)),
            })
        }
        CpuClock::Process(_) => None,
    }
}

/// getrusage and times: home answers (children, switches), what was used away is added.
pub fn usage(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let fix = match (i64::from(n.nr), n.args[0] as i32) {
        (libc::SYS_times, _) => Fix::Times(n.args[0]),
        (_, SELF) => Fix::Rusage(n.args[1]),
        (_, THREAD) => Fix::ThreadRusage(n.args[1]),
        _ => Fix::None,
    };
    forward::send_fixed(sh, cell, n, fix);
}

/// Changes what a call has just written for the guest.
fn change<const N: usize, T>(cell: &Cell, addr: u64, f: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let mut b = [0u8; N];
    if !matches!(sys::vm_read(cell.here, addr, &mut b), Ok(n) if n == N) {
        return None;
    }
    let said = f(&mut b);
    cell.write(addr, &b).then_some(said)
}

/// ru_utime and ru_stime come first; up to ru_majflt.
const OF_RUSAGE: usize = 80;

pub fn add_rusage(cell: &Cell, addr: u64, thread: bool) {
    let t = if thread {
        thread_away(cell)
    } else {
        away(&cell.proc)
    };
    let memory = cpu::memory(cell.proc.here, thread.then_some(cell.here));
    let said = change::<OF_RUSAGE, _>(cell, addr, |b| {
        usage::add_memory(b, memory);
        usage::add_to_rusage(b, t)
    });
    let account = if thread { &cell.cpu } else { &cell.proc.cpu };
    if let Some(said) = said {
        lock(account).carried.shown.split(said);
    }
}

pub fn add_times(cell: &Cell, addr: u64) {
    let t = away(&cell.proc);
    let none = CpuTime::default();
    let said = change::<{ usage::TMS }, _>(cell, addr, |b| usage::add_to_tms(b, t, none).0);
    if let Some(said) = said {
        lock(&cell.proc.cpu).carried.shown.split(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ns: u64, system_ns: u64) -> CpuTime {
        CpuTime { user_ns, system_ns }
    }

    #[test]
    fn sums_go_on_from_node_to_node() {
        let mut a = Account::default();
        a.carried.home = time(100, 10);
        a.carried.away = time(5, 5);
        assert_eq!(a.clock_ns(7), 127);
        let ticks = |by| a.sampled_ns(by, time(4, 3));
        assert_eq!([Counts::Ticks, Counts::UserTicks].map(ticks), [127, 109]);
        assert_eq!(a.away(time(4, 3)), time(9, 8));
        // The ratio moves: neither part goes back.
        assert_eq!(a.away(time(9, 1)), time(12, 8));
        let mut next = Account {
            carried: a.travels(time(9, 1)),
            ..Account::default()
        };
        assert_eq!(
            (next.carried.home, next.carried.away),
            (time(100, 10), time(12, 8))
        );
        assert_eq!(next.clock_ns(0), 130);
        assert_eq!(next.carried.shown.clock_ns, 130);
    }
}
