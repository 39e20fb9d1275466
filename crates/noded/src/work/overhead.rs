//! The overhead of the farm: the CPU time of its daemon and of the keepers of its programs.
//!
//! Fifteen keepers and the daemon of a home of a tenth of a core are an eighth of it: programs that stay there fall behind.

use armento_gossip::Tick;
use armento_model::Pid;
use armento_tracee::cpu::process_ns;
use std::collections::HashMap;

/// How far each of these processes was at the last look, nanoseconds.
#[derive(Debug, Default)]
pub struct Overhead {
    had: HashMap<Pid, u64>,
    at: Tick,
}

impl Overhead {
    /// What this process and `keepers` have used since the last look, thousandths of a core; of a new process all of it.
    pub fn look(&mut self, keepers: impl Iterator<Item = Pid>, now: Tick) -> u64 {
        let past_us = now.since(self.at) * 1000;
        self.at = now;
        let me = std::process::id() as Pid;
        let have = keepers.chain([me]).map(|pid| (pid, process_ns(pid)));
        let have: HashMap<Pid, u64> = have.collect();
        let new = |(pid, ns): (&Pid, &u64)| {
            let before = self.had.get(pid).copied().unwrap_or(0);
            ns.saturating_sub(before)
        };
        let used_ns: u64 = have.iter().map(new).sum();
        self.had = have;
        used_ns / past_us.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_counts_once() {
        let mut overhead = Overhead::default();
        let me = std::process::id() as Pid;
        overhead.look([].into_iter(), Tick(1_000));
        let before = process_ns(me);
        while process_ns(me) < before + 30_000_000 {}
        // By its own clock a tenth of a second has passed.
        let used = overhead.look([me].into_iter(), Tick(1_100));
        assert!((300..3_000).contains(&used), "{used}");
        assert!(overhead.look([me].into_iter(), Tick(61_100)) < 300);
    }
}
