//! Processors that are shared evenly, in virtual time.

use std::collections::BTreeSet;

/// Whatever computes on a machine: a process, or a piece of work for one that moves.
pub type TaskId = usize;

/// One node's processors. Each task gets the same; none more than one core.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: u64,
    /// Work that one core does in a microsecond, nanoseconds of a standard core.
    speed: u64,
    /// Native tasks without end, that are nobody's of ours.
    foreign: u64,
    /// What each task that was there all the time has got, nanoseconds of a standard core.
    served: u64,
    at_us: u64,
    /// By what they will have been served at their end.
    tasks: BTreeSet<(u64, TaskId)>,
}

impl Machine {
    /// `speed`: of one core, thousandths of a standard core.
    pub fn new(cores: u64, speed_milli: u64) -> Machine {
        Machine {
            cores: cores.max(1),
            speed: speed_milli.max(1),
            foreign: 0,
            served: 0,
            at_us: 0,
            tasks: BTreeSet::new(),
        }
    }

    pub fn set_foreign(&mut self, tasks: u64, now_us: u64) {
        self.advance(now_us);
        self.foreign = tasks;
    }

    /// Tasks that want a processor.
    pub fn runnable(&self) -> u64 {
        self.tasks.len() as u64 + self.foreign
    }

    /// … of those whose numbers are below that.
    pub fn runnable_below(&self, end: TaskId) -> u64 {
        self.tasks.iter().filter(|(_, task)| *task < end).count() as u64 + self.foreign
    }

    /// Brings the books to `now`.
    pub fn advance(&mut self, now_us: u64) {
        let past = now_us.saturating_sub(self.at_us);
        self.at_us = now_us.max(self.at_us);
        let sharing = self.runnable().max(self.cores);
        self.served += past * self.speed * self.cores / sharing;
    }

    /// A task begins with so much left to do. After: the key by which it is known here.
    pub fn enter(&mut self, task: TaskId, left_ns: u64, now_us: u64) -> u64 {
        self.advance(now_us);
        let end = self.served + left_ns;
        self.tasks.insert((end, task));
        end
    }

    /// It goes; what it has left to do.
    pub fn leave(&mut self, task: TaskId, end: u64, now_us: u64) -> u64 {
        self.advance(now_us);
        self.tasks.remove(&(end, task));
        end.saturating_sub(self.served)
    }

    /// What it has left to do, as of the last [`Machine::advance`].
    pub fn left(&self, end: u64) -> u64 {
        end.saturating_sub(self.served)
    }

    /// Whose end is due.
    pub fn due(&self) -> Option<(u64, TaskId)> {
        self.tasks
            .first()
            .copied()
            .filter(|(end, _)| *end <= self.served)
    }

    /// When the next end is, if nothing changes.
    pub fn next_end(&self) -> Option<u64> {
        let (end, _) = self.tasks.first()?;
        let left = end.saturating_sub(self.served);
        let sharing = self.runnable().max(self.cores);
        Some(self.at_us + (left * sharing).div_ceil(self.speed * self.cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_evenly_and_nobody_gets_more_than_one() {
        // A core of a tenth: 1 ms of work takes 10 ms alone, 20 ms for two.
        let mut m = Machine::new(1, 100);
        m.enter(1, 1_000_000, 0);
        assert_eq!(m.next_end(), Some(10_000));
        let two = m.enter(2, 1_000_000, 5_000);
        assert_eq!(m.next_end(), Some(15_000));
        m.advance(15_000);
        assert_eq!(m.due().map(|(_, task)| task), Some(1));
        assert_eq!(m.left(two), 500_000);
        let mut m = Machine::new(4, 1000);
        m.enter(1, 1_000_000, 0);
        assert_eq!(m.next_end(), Some(1_000));
        m.set_foreign(7, 0);
        assert_eq!(m.next_end(), Some(2_000));
        m.advance(1_000);
        let end = m.tasks.first().map_or(0, |(end, _)| *end);
        assert_eq!(m.leave(1, end, 1_000), 500_000);
    }
}
