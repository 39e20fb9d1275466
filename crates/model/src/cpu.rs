//! CPU time, as the kernel divides and shows it.

use serde::{Deserialize, Serialize};
use std::ops::Add;

/// CPU time of a process or thread, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl CpuTime {
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// `total_ns` in the ratio of two sampled times. KERNEL: cputime_adjust, kernel/sched/cputime.c.
    pub fn split(total_ns: u64, user: u64, system: u64) -> CpuTime {
        let (all, part) = (u128::from(user) + u128::from(system), u128::from(system));
        // Nothing was sampled yet: the kernel counts it as user time.
        let system_ns = (u128::from(total_ns) * part).checked_div(all).unwrap_or(0) as u64;
        CpuTime {
            user_ns: total_ns - system_ns,
            system_ns,
        }
    }

    /// The same total, divided such that neither part is smaller than it was shown before. The ratio is sampled: it
    /// moves both ways.
    pub fn not_before(self, last: CpuTime) -> CpuTime {
        let total_ns = self.total_ns();
        if total_ns <= last.total_ns() {
            return last;
        }
        let room = total_ns - last.user_ns;
        let system_ns = self.system_ns.clamp(last.system_ns, room);
        CpuTime {
            user_ns: total_ns - system_ns,
            system_ns,
        }
    }
}

impl Add for CpuTime {
    type Output = CpuTime;

    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
        }
    }
}

/// The largest times that a program has read, by interface: it must never read less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// From a clock.
    pub clock_ns: u64,
    /// From getrusage or times.
    pub split: CpuTime,
}

impl Shown {
    pub fn clock(&mut self, ns: u64) {
        self.clock_ns = self.clock_ns.max(ns);
    }

    pub fn split(&mut self, t: CpuTime) {
        self.split.user_ns = self.split.user_ns.max(t.user_ns);
        self.split.system_ns = self.split.system_ns.max(t.system_ns);
    }

    /// Whether a kernel that returns `says` would return less than what was read before.
    pub fn beyond(&self, says: &Shown) -> bool {
        self.clock_ns > says.clock_ns
            || self.split.user_ns > says.split.user_ns
            || self.split.system_ns > says.split.system_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ns: u64, system_ns: u64) -> CpuTime {
        CpuTime { user_ns, system_ns }
    }

    #[test]
    fn totals_are_split_by_sampled_ratio() {
        let check = |total, user, system, want| {
            assert_eq!(CpuTime::split(total, user, system), want);
        };
        check(100, 0, 0, time(100, 0));
        check(100, 4, 0, time(100, 0));
        check(100, 0, 4, time(0, 100));
        check(101, 3, 1, time(76, 25));
        check(u64::MAX, 1, 1, time(u64::MAX / 2 + 1, u64::MAX / 2));
    }

    #[test]
    fn no_part_decreases() {
        let check = |now: CpuTime, last, want| assert_eq!(now.not_before(last), want, "{now:?}");
        check(time(10, 10), time(5, 5), time(10, 10));
        // The ratio moved: the value shown before remains.
        check(time(8, 8), time(10, 4), time(10, 6));
        check(time(16, 1), time(8, 5), time(12, 5));
        check(time(3, 3), time(4, 4), time(4, 4));
    }

    #[test]
    fn largest_times_read_are_kept() {
        let mut s = Shown::default();
        assert!(!s.beyond(&Shown::default()));
        s.clock(7);
        s.clock(3);
        s.split(time(2, 1));
        s.split(time(1, 2));
        assert_eq!((s.clock_ns, s.split), (7, time(2, 2)));
        let says = |clock_ns, user, system| Shown {
            clock_ns,
            split: time(user, system),
        };
        assert!(!s.beyond(&says(7, 2, 2)));
        assert!(s.beyond(&says(6, 2, 2)));
        assert!(s.beyond(&says(9, 1, 9)));
        assert!(s.beyond(&says(9, 9, 1)));
    }
}
