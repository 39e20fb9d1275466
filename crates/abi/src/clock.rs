//! Maps a clock number to the process or thread of which it counts the CPU time.

/// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID.
const PROCESS: i32 = libc::CLOCK_PROCESS_CPUTIME_ID;
const THREAD: i32 = libc::CLOCK_THREAD_CPUTIME_ID;
/// KERNEL: linux/posix-timers_types.h: the number of a CPU clock is !id << 3, one thread's, its kind.
const PER_THREAD: i32 = 4;
const KIND: i32 = 3;
/// What the clock counts: ticks, ticks in user mode, exact time.
pub const PROF: i32 = 0;
pub const VIRT: i32 = 1;
pub const SCHED: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuClock {
    Process(i32),
    Thread(i32),
}

/// What a CPU clock counts. KERNEL: kernel/time/posix-cpu-timers.c, kernel/sched/cputime.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Exact time from the scheduler.
    Exact,
    /// Ticks that came while it ran: as for ITIMER_PROF.
    Ticks,
    /// Ticks that came in user mode: as for ITIMER_VIRTUAL.
    UserTicks,
}

impl Counts {
    /// The value that such a clock shows for these times.
    pub fn of(self, user_ns: u64, system_ns: u64) -> u64 {
        match self {
            Counts::UserTicks => user_ns,
            Counts::Ticks | Counts::Exact => user_ns + system_ns,
        }
    }
}

/// What the CPU clock `id` counts.
pub fn counts(id: i32) -> Counts {
    match id & KIND {
        PROF if id < 0 => Counts::Ticks,
        VIRT if id < 0 => Counts::UserTicks,
        _ => Counts::Exact,
    }
}

/// The clock `id`, from the view of thread `tid` of process `pid`; `None` if it counts another process.
pub fn cpu_clock(id: i32, pid: i32, tid: i32) -> Option<CpuClock> {
    let (target, per_thread) = match id {
        PROCESS => (0, false),
        THREAD => (0, true),
        _ if id < 0 && id & KIND <= SCHED => (!(id >> 3), id & PER_THREAD != 0),
        _ => return None,
    };
    Some(match (target, per_thread) {
        (0, true) => CpuClock::Thread(tid),
        (_, true) => CpuClock::Thread(target),
        (0, false) => CpuClock::Process(pid),
        // KERNEL: a process may be given by the caller's own thread (pid_for_clock).
        (_, false) if target == tid => CpuClock::Process(pid),
        (_, false) => CpuClock::Process(target),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_numbers_are_decoded_as_in_the_kernel() {
        let check = |id, want| assert_eq!(cpu_clock(id, 40, 41), want, "{id}");
        check(libc::CLOCK_MONOTONIC, None);
        check(2, Some(CpuClock::Process(40)));
        check(3, Some(CpuClock::Thread(41)));
        let named = |target: i32, low: i32| !target << 3 | low;
        check(named(0, 2), Some(CpuClock::Process(40)));
        check(named(0, 6), Some(CpuClock::Thread(41)));
        check(named(40, 2), Some(CpuClock::Process(40)));
        check(named(41, 2), Some(CpuClock::Process(40)));
        check(named(7, 2), Some(CpuClock::Process(7)));
        check(named(43, 6), Some(CpuClock::Thread(43)));
        check(named(40, 0), Some(CpuClock::Process(40)));
        check(named(0, 5), Some(CpuClock::Thread(41)));
        // A clock given by a descriptor.
        check(named(5, 3), None);
        let said = [2, 3, named(0, 2), named(40, 0), named(0, 5)].map(counts);
        let ticks = [Counts::Ticks, Counts::UserTicks];
        assert_eq!(said, [[Counts::Exact; 3].as_slice(), &ticks].concat()[..]);
    }
}
