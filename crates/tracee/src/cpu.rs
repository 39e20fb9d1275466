//! CPU time of a process or thread, as another process reads it from the kernel.

use crate::usage::{Memory, TICK_NS};
use crate::{status, sys, text};
use armento_abi::clock::{PROF, SCHED, VIRT};
use armento_model::{CpuTime, Shown};
use std::io;
use std::time::{Duration, Instant};

/// Fields of /proc/PID/stat, from field 3 on. KERNEL: proc_pid_stat(5).
const UTIME: usize = 14 - 3;
const CUTIME: usize = 16 - 3;

/// One CPU clock of process `pid`; 0 if the process is gone. KERNEL: any process may read the CPU clocks of a process,
/// but those of a thread only threads of the same process may read (pid_for_clock).
fn clock(pid: i32, kind: i32) -> u64 {
    sys::clock_ns(!pid << 3 | kind).unwrap_or(0)
}

/// Includes threads that have ended.
pub fn process_ns(pid: i32) -> u64 {
    clock(pid, SCHED)
}

pub fn process(pid: i32) -> CpuTime {
    let t = process_ticks(pid);
    CpuTime::split(process_ns(pid), t.user_ns, t.system_ns)
}

/// Whole ticks that the kernel accounted to threads of the process.
pub fn process_ticks(pid: i32) -> CpuTime {
    let (user_ns, both) = (clock(pid, VIRT), clock(pid, PROF));
    CpuTime {
        user_ns,
        system_ns: both.saturating_sub(user_ns),
    }
}

/// The current slice of a running thread may be missing: the kernel adds it at the next tick.
pub fn thread_ns(tid: i32) -> u64 {
    let exact = schedstat(tid).map(|s| s.0);
    match exact {
        Some(ns) if ns > 0 => ns,
        // A kernel without these statistics has an empty file or 0.
        _ => thread_ticks(tid).total_ns(),
    }
}

/// Nanoseconds that a thread was runnable: on a processor or waiting for one. `None` on a kernel without these
/// statistics.
pub fn wanted_ns(tid: i32) -> Option<u64> {
    let (ran, waited) = schedstat(tid)?;
    Some(ran + waited).filter(|ns| *ns > 0)
}

/// Now minus the time for which these threads together were runnable; now, if the kernel does not report it.
pub fn wanted_since(tids: &[i32]) -> Instant {
    let wanted_ns = tids.iter().filter_map(|tid| wanted_ns(*tid)).sum();
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(wanted_ns))
        .unwrap_or(now)
}

/// Nanoseconds on a processor and nanoseconds waiting for one. KERNEL: Documentation/scheduler/sched-stats.rst,
/// /proc/PID/schedstat; time throttled by a CPU quota counts as waiting (measured, 6.18).
fn schedstat(tid: i32) -> Option<(u64, u64)> {
    let text = text::read(format!("/proc/{tid}/task/{tid}/schedstat")).ok()?;
    let mut words = text.split_whitespace().map(|w| w.parse().ok());
    Some((words.next()??, words.next()??))
}

pub fn thread(tid: i32) -> CpuTime {
    let t = thread_ticks(tid);
    CpuTime::split(thread_ns(tid), t.user_ns, t.system_ns)
}

/// What the local kernel has accounted of the memory of thread `tid` of `pid`, or of the whole process. KERNEL:
/// proc_pid_stat(5), fields 10 and 12; proc_pid_status(5), VmHWM.
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

/// Reads the files once right before [`thread`] is called for many stopped threads: the second read of a /proc file
/// takes a third of the time of the first (13 instead of 30 us, 6.18).
pub fn look_ahead(tids: impl Iterator<Item = i32>) {
    for tid in tids {
        let _ = thread(tid);
    }
}

/// Lower bound of what the process reads when it asks its own kernel.
pub fn process_says(pid: i32) -> Shown {
    Shown {
        clock_ns: process_ns(pid),
        split: ticks(status::stat_fields(pid), UTIME),
    }
}

/// Lower bound of what the thread reads when it asks its own kernel.
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

/// Two neighbouring fields; zero if the process or thread is gone.
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

    /// Uses about `ns` of processor time.
    fn work(ns: u64) {
        let me = std::process::id() as i32;
        let until = process_ns(me) + ns;
        while process_ns(me) < until {}
    }

    #[test]
    fn work_counts_as_runnable_time_and_sleep_does_not() {
        let link = std::fs::read_link("/proc/thread-self").expect("own thread");
        let me = link.file_name().and_then(|n| n.to_str()?.parse().ok());
        let me: i32 = me.expect("a number");
        let before = (Instant::now(), wanted_since(&[me]));
        while before.0.elapsed() < Duration::from_millis(50) {}
        std::thread::sleep(Duration::from_millis(100));
        let after = wanted_since(&[me]);
        // The work must not shift it; the sleep shifts it by its length, less at most a clock tick.
        let slept = after.saturating_duration_since(before.1);
        assert!(slept + Duration::from_nanos(TICK_NS) >= Duration::from_millis(100));
        assert!(after.elapsed() + Duration::from_nanos(TICK_NS) >= Duration::from_millis(50));
        let no_process = wanted_since(&[5 << 20]);
        assert!(no_process.elapsed() < after.elapsed(), "now");
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
        let no_process = 5 << 20;
        assert_eq!(process(no_process), CpuTime::default());
        assert_eq!(thread(no_process), CpuTime::default());
        assert_eq!(children_says(no_process), CpuTime::default());
    }
}
