//! Invariants at every step. A world with checks enabled stops at the first violation, and prints the time; the same
//! seed stops there again.

use super::state::World;
use crate::machine::TaskId;

/// No more moves of one home than its policy allows may be in progress, except for the second of two processes that
/// change places.
const OVER: usize = 1;

impl World {
    /// From now on every process is looked up on every machine after each event.
    pub fn watch(&mut self) {
        self.checks.all = true;
    }

    /// Each living process is in exactly one place: it runs on one machine, the one recorded as its place, or it is
    /// stopped in flight.
    pub(super) fn check_all(&self) {
        if !self.checks.all {
            return;
        }
        let mut runs = vec![None; self.procs.len()];
        for (node, (machine, _)) in self.machines.iter().enumerate() {
            for task in machine.tasks().filter(|task| *task < self.procs.len()) {
                let before = runs[task].replace(node);
                assert_eq!(before, None, "{}: {task} runs at {node}, too", self.now);
            }
        }
        for (task, proc) in self.procs.iter().enumerate() {
            let place = proc.running.map(|_| proc.place);
            assert_eq!(runs[task], place, "{}: {task} is elsewhere", self.now);
            let stands = proc.running.is_none();
            if proc.lives() {
                let flies = proc.flight.is_some() || proc.copying.waits;
                assert!(!stands || flies, "{}: {task} is nowhere", self.now);
                let here = self.here.iter().filter(|here| here.contains(&task));
                assert_eq!(here.count(), 1, "{}: {task} is here and there", self.now);
            } else {
                assert!(stands, "{}: {task} runs and does not live", self.now);
            }
        }
    }

    /// One flight a process, and no more of one home's than allowed.
    pub(super) fn check_flight(&self, task: TaskId, to: usize) {
        let proc = &self.procs[task];
        assert_eq!(proc.flight, None, "{}: {task} flies already", self.now);
        assert_ne!(proc.place, to, "{}: {task} goes where it is", self.now);
        if self.checks.all {
            let ours = self.homes[proc.job.home].iter();
            let flying = ours.filter(|task| self.procs[**task].flight.is_some());
            let max = self.policy.flights_max(self.names.len()) + OVER;
            assert!(flying.count() < max, "{}: too many under way", self.now);
        }
    }

    /// No node is out of memory while another node has room for its smallest process.
    pub(super) fn check_memory(&self, node: usize) {
        if !self.checks.all || self.used_kib[node] <= self.daemons[node].rack.mem_kib {
            return;
        }
        let sizes = self.here[node].iter().map(|task| self.procs[*task].rss_kib);
        let least = sizes.min().unwrap_or(0);
        let roomy = |i: usize| {
            let reserve = self.policy.reserve_kib(self.daemons[i].rack.mem_kib);
            i != node && self.daemons[i].up && self.free_kib(i) > 2 * (least + reserve)
        };
        let room = (0..self.names.len()).find(|&i| roomy(i));
        assert_eq!(room, None, "{}: {node} has no memory left", self.now);
    }
}
