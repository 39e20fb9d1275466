//! CPU time of a process or thread, as the kernel tells those who look from outside.

use crate::usage::{Memory, TICK_NS};
use crate::{status, sys, text};
use armento_abi::clock::{PROF, SCHED, VIRT};
use armento_model::{CpuTime, Shown};
use std::io;
use std::time::{Duration, Instant};

/// Fields of /proc/PID/stat, from field 3 on. KERNEL: proc_pid_stat(5).
const UTIME: usize = 14 - 3;
const CUTIME: usize = 16 - 3;

/// One clock of process `pid`; 0 when it is gone. KERNEL: CPU clocks of a process may be read by anybody,
/// those of a thread only by threads of the same process (pid_for_clock).
fn clock(pid: i32, kind: i32) -> u64 {
    sys::clock_ns(!pid << 3 | kind).unwrap_or(0)
}

/// Threads that ended count, too.
pub fn process_ns(pid: i32) -> u64 {
    clock(pid, SCHED)
}

pub fn process(pid: i32) -> CpuTime {
    let t = process_ticks(pid);
    CpuTime::split(process_ns(pid), t.user_ns, t.system_ns)
}

/// Whole ticks that came while one of its threads ran.
pub fn process_ticks(pid: i32) -> CpuTime {
    let (user_ns, both) = (clock(pid, VIRT), clock(pid, PROF));
    CpuTime {
        user_ns,
        system_ns: both.saturating_sub(user_ns),
    }
}

/// A running thread's last slice may be missing: the kernel adds it with its next tick.
pub fn thread_ns(tid: i32) -> u64 {
    let exact = schedstat(tid).map(|s| s.0);
    match exact {
        Some(ns) if ns > 0 => ns,
        // A kernel without these statistics says nothing or 0.
        _ => thread_ticks(tid).total_ns(),
    }
}

/// How long a thread has wanted a processor: that it had one, and that it stood in line for one.
/// `None` on a kernel without these statistics.
pub fn wanted_ns(tid: i32) -> Option<u64> {
    let (ran, waited) = schedstat(tid)?;
    Some(ran + waited).filter(|ns| *ns > 0)
}

/// The moment as long ago as these threads together have wanted a processor; now, where the kernel does not tell.
pub fn wanted_since(tids: &[i32]) -> Instant {
    let wanted_ns = tids.iter().filter_map(|tid| wanted_ns(*tid)).sum();
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(wanted_ns))
        .unwrap_or(now)
}

/// Nanoseconds on a processor and in line for one. KERNEL: Documentation/scheduler/sched-stats.rst,
/// /proc/PID/schedstat; time that a quota takes away counts as in line (measured, 6.18).
fn schedstat(tid: i32) -> Option<(u64, u64)> {
    let text = text::read(format!("/proc/{tid}/task/{tid}/schedstat")).ok()?;
    let mut words = text.split_whitespace().map(|w| w.parse().ok());
    Some((words.next()??, words.next()??))
}

pub fn thread(tid: i32) -> CpuTime {
    let t = thread_ticks(tid);
    CpuTime::split(thread_ns(tid), t.user_ns, t.system_ns)
}

/// What the kernel here has counted of the memory of thread `tid` of `pid`, or of the whole process.
/// KERNEL: proc_pid_stat(5), fields 10 and 12; proc_pid_status(5), VmHWM.
pub fn memory(pid: i32, tid: Option<i32>) -> Memory {
    let stat = tid.map_or_else(|| status::stat_fields(pid), status::thread_stat_fields);
    let stat = stat.unwrap_or_default();
    let field = |n: usize| stat.get(n - 3).copied().unwrap_or(0).max(0) as u64;
    Memory {
        peak_kib: status::peak_kib(pid),
        minor_faults: field(10),
        major_faults: field(12),
    }
}

/// Right before [`thread`] is asked of many stopped threads: the second look at files of /proc takes a third of the
/// first (13 instead of 30 us, 6.18).
pub fn look_ahead(tids: impl Iterator<Item = i32>) {
    for tid in tids {
        let _ = thread(tid);
    }
}

/// What the process reads at least when it asks its own kernel.
pub fn process_says(pid: i32) -> Shown {
    Shown {
        clock_ns: process_ns(pid),
        split: ticks(status::stat_fields(pid), UTIME),
    }
}

/// What the thread reads at least when it asks its own kernel.
pub fn thread_says(tid: i32) -> Shown {
    Shown {
        clock_ns: thread_ns(tid),
        split: thread_ticks(tid),
    }
}

/// CPU time of the children that it has waited for.
pub fn children_says(pid: i32) -> CpuTime {
    ticks(status::stat_fields(pid), CUTIME)
}

/// The same of one thread.
pub fn thread_ticks(tid: i32) -> CpuTime {
    ticks(status::thread_stat_fields(tid), UTIME)
}

/// Two neighbouring fields; nothing of one who is gone.
fn ticks(stat: io::Result<Vec<i64>>, first: usize) -> CpuTime {
    let stat = stat.unwrap_or_default();
    let at = |i: usize| stat.get(i).copied().unwrap_or(0) as u64 * TICK_NS;
    CpuTime {
        user_ns: at(first),
        system_ns: at(first + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses about this much of a processor.
    fn work(ns: u64) {
        let me = std::process::id() as i32;
        let until = process_ns(me) + ns;
        while process_ns(me) < until {}
    }

    #[test]
    fn who_has_worked_wanted_it_and_who_slept_did_not() {
        let link = std::fs::read_link("/proc/thread-self").expect("own thread");
        let me = link.file_name().and_then(|n| n.to_str()?.parse().ok());
        let me: i32 = me.expect("a number");
        let before = (Instant::now(), wanted_since(&[me]));
        while before.0.elapsed() < Duration::from_millis(50) {}
        std::thread::sleep(Duration::from_millis(100));
        let after = wanted_since(&[me]);
        // The work moves it by nothing, the sleep as far as it took, or a clock tick less.
        let slept = after.saturating_duration_since(before.1);
        assert!(slept + Duration::from_nanos(TICK_NS) >= Duration::from_millis(100));
        assert!(after.elapsed() + Duration::from_nanos(TICK_NS) >= Duration::from_millis(50));
        let nobody = wanted_since(&[5 << 20]);
        assert!(nobody.elapsed() < after.elapsed(), "now");
    }

    #[test]
    fn own_times_are_read_and_grow() {
        let me = std::process::id() as i32;
        let before = (process(me), thread_ns(me));
        work(30_000_000);
        let after = process(me);
        assert!(after.total_ns() >= before.0.total_ns() + 30_000_000);
        let says = process_says(me);
        assert!(says.clock_ns >= after.total_ns());
        assert!(says.split.total_ns() <= process_ns(me));
        assert!(thread_ns(me) >= before.1);
        // KERNEL: PID_MAX_LIMIT is 4 Mi.
        let nobody = 5 << 20;
        assert_eq!(process(nobody), CpuTime::default());
        assert_eq!(thread(nobody), CpuTime::default());
        assert_eq!(children_says(nobody), CpuTime::default());
    }
}
