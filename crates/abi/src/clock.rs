//! Whose CPU time a clock's number names.

/// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID.
const PROCESS: i32 = libc::CLOCK_PROCESS_CPUTIME_ID;
const THREAD: i32 = libc::CLOCK_THREAD_CPUTIME_ID;
/// KERNEL: linux/posix-timers_types.h: the number of a CPU clock is !id << 3, one thread's, its kind.
const PER_THREAD: i32 = 4;
const KIND: i32 = 3;
const SCHED: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuClock {
    Process(i32),
    Thread(i32),
}

/// The clock `id` as thread `tid` of process `pid` names it; `None` for all others, among them the clocks of
/// sampled time, which nobody uses.
pub fn cpu_clock(id: i32, pid: i32, tid: i32) -> Option<CpuClock> {
    let (whom, per_thread) = match id {
        PROCESS => (0, false),
        THREAD => (0, true),
        _ if id < 0 && id & KIND == SCHED => (!(id >> 3), id & PER_THREAD != 0),
        _ => return None,
    };
    Some(match (whom, per_thread) {
        (0, true) => CpuClock::Thread(tid),
        (_, true) => CpuClock::Thread(whom),
        (0, false) => CpuClock::Process(pid),
        // KERNEL: a process may be named by the caller's own thread (pid_for_clock).
        (_, false) if whom == tid => CpuClock::Process(pid),
        (_, false) => CpuClock::Process(whom),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_named_as_the_kernel_names_them() {
        let check = |id, want| assert_eq!(cpu_clock(id, 40, 41), want, "{id}");
        check(libc::CLOCK_MONOTONIC, None);
        check(2, Some(CpuClock::Process(40)));
        check(3, Some(CpuClock::Thread(41)));
        let named = |whom: i32, low: i32| !whom << 3 | low;
        check(named(0, 2), Some(CpuClock::Process(40)));
        check(named(0, 6), Some(CpuClock::Thread(41)));
        check(named(40, 2), Some(CpuClock::Process(40)));
        check(named(41, 2), Some(CpuClock::Process(40)));
        check(named(7, 2), Some(CpuClock::Process(7)));
        check(named(43, 6), Some(CpuClock::Thread(43)));
        // Sampled times, and clocks behind descriptors.
        check(named(40, 0), None);
        check(named(40, 1), None);
        check(named(5, 3), None);
    }
}
