//! CPU time of one process or thread: used here, plus what it used elsewhere before.

use armento_abi::Counts;
use armento_migrate::image::Cpu;
use armento_model::CpuTime;

/// What came with it, and what the kernel here counted last.
#[derive(Default)]
pub struct CpuAccount {
    pub carried: Cpu,
    here: CpuTime,
}

impl CpuAccount {
    /// Used away in all. `now`: what the kernel here has counted.
    pub fn away(&mut self, now: CpuTime) -> CpuTime {
        self.here = now.not_before(self.here);
        self.carried.away + self.here
    }

    /// What its clock shows when the kernel here has counted `here_ns`.
    pub fn clock_ns(&mut self, here_ns: u64) -> u64 {
        let before = self.carried.home + self.carried.away;
        let ns = before.total_ns() + here_ns;
        self.carried.shown.clock(ns);
        ns
    }

    /// What a clock of ticks shows when the kernel here counted `here`. Of the time used elsewhere only the exact sum is
    /// known.
    pub fn sampled_ns(&self, by: Counts, here: CpuTime) -> u64 {
        let t = self.carried.home + self.carried.away + here;
        by.of(t.user_ns, t.system_ns)
    }

    /// What the next node continues from.
    pub fn travels(&mut self, now: CpuTime) -> Cpu {
        Cpu {
            away: self.away(now),
            ..self.carried
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(user_ns: u64, system_ns: u64) -> CpuTime {
        CpuTime { user_ns, system_ns }
    }

    #[test]
    fn cpu_time_is_continued_from_node_to_node() {
        let mut a = CpuAccount::default();
        a.carried.home = time(100, 10);
        a.carried.away = time(5, 5);
        assert_eq!(a.clock_ns(7), 127);
        let ticks = |by| a.sampled_ns(by, time(4, 3));
        assert_eq!([Counts::Ticks, Counts::UserTicks].map(ticks), [127, 109]);
        assert_eq!(a.away(time(4, 3)), time(9, 8));
        // The kernel splits user and system time anew: neither part goes back.
        assert_eq!(a.away(time(9, 1)), time(12, 8));
        let mut next = CpuAccount {
            carried: a.travels(time(9, 1)),
            ..CpuAccount::default()
        };
        assert_eq!(
            (next.carried.home, next.carried.away),
            (time(100, 10), time(12, 8))
        );
        assert_eq!(next.clock_ns(0), 130);
        assert_eq!(next.carried.shown.clock_ns, 130);
    }
}
