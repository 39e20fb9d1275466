//! What must hold at every step. A world that is told to watch stops at the first that does not, with the moment and its
//! seed's run behind it: the same run stops there again.

use super::state::World;
use crate::machine::TaskId;

/// More of one home's are never under way than its policy says, but for the second of two that change places.
const OVER: usize = 1;

impl World {
    /// From now on every process is looked for on every machine after each event.
    pub fn watch(&mut self) {
        self.checks.all = true;
    }

    /// Each living process is in exactly one place: it runs on one machine, the one where it is said to be, or it stands
    /// still on its way.
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
                let flies = proc.flight.is_some();
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

    /// Nobody is out of memory while another node has room for its smallest process.
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
