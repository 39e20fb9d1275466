//! Processors that are shared evenly, in virtual time.

use std::collections::BTreeSet;

/// A task of a machine: a process, or a piece of work for a move.
pub type TaskId = usize;

/// One node's processors. Each task gets the same share, at most one core. Tasks that are ahead of all others leave to
/// these what they do not need.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: u64,
    /// Work that one core does in a microsecond, nanoseconds of a standard core.
    speed: u64,
    /// Endless native tasks, which belong to no simulated process.
    foreign: u64,
    at_us: u64,
    ahead: Sharing,
    tasks: Sharing,
}

/// Tasks with equal shares.
#[derive(Clone, Debug, Default)]
struct Sharing {
    /// Work received by each task that was there all the time, nanoseconds of a standard core.
    served: u64,
    /// Ordered by the value of `served` at their end.
    all: BTreeSet<(u64, TaskId)>,
}

impl Machine {
    /// `speed`: of one core, thousandths of a standard core.
    pub fn new(cores: u64, speed_milli: u64) -> Machine {
        Machine {
            cores: cores.max(1),
            speed: speed_milli.max(1),
            foreign: 0,
            at_us: 0,
            ahead: Sharing::default(),
            tasks: Sharing::default(),
        }
    }

    pub fn set_foreign(&mut self, tasks: u64, now_us: u64) {
        self.advance(now_us);
        self.foreign = tasks;
    }

    pub fn set_speed(&mut self, speed_milli: u64, now_us: u64) {
        self.advance(now_us);
        self.speed = speed_milli.max(1);
    }

    /// Number of runnable tasks with numbers below that.
    pub fn runnable_below(&self, end: TaskId) -> u64 {
        let tasks = self.tasks().filter(|task| *task < end);
        tasks.count() as u64 + self.foreign
    }

    /// All tasks of this machine.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        let both = self.ahead.all.iter().chain(&self.tasks.all);
        both.map(|(_, task)| *task)
    }

    /// Work of a microsecond, and the number of tasks that share it: for those ahead, and for the others.
    fn shares(&self) -> [(u64, u64); 2] {
        let ahead = self.ahead.all.len() as u64;
        let others = self.tasks.all.len() as u64 + self.foreign;
        let left = self.cores - ahead.min(self.cores);
        [
            (self.speed * self.cores, ahead.max(self.cores)),
            (self.speed * left, others.max(left).max(1)),
        ]
    }

    /// Accounts for the time up to `now`.
    pub fn advance(&mut self, now_us: u64) {
        let past = now_us.saturating_sub(self.at_us);
        self.at_us = now_us.max(self.at_us);
        let [ahead, others] = self.shares();
        self.ahead.served += past * ahead.0 / ahead.1;
        self.tasks.served += past * others.0 / others.1;
    }

    /// A task begins with so much work left. After: returns its key on this machine.
    pub fn enter(&mut self, task: TaskId, left_ns: u64, now_us: u64) -> u64 {
        self.advance(now_us);
        self.tasks.enter(task, left_ns)
    }

    /// As [`Machine::enter`], ahead of all others, as a daemon's short work is among programs that always compute.
    pub fn enter_ahead(&mut self, task: TaskId, left_ns: u64, now_us: u64) -> u64 {
        self.advance(now_us);
        self.ahead.enter(task, left_ns)
    }

    /// Removes a task; returns its remaining work.
    pub fn leave(&mut self, task: TaskId, end: u64, now_us: u64) -> u64 {
        self.advance(now_us);
        let ahead = self.ahead.all.remove(&(end, task));
        if ahead {
            return end.saturating_sub(self.ahead.served);
        }
        self.tasks.all.remove(&(end, task));
        end.saturating_sub(self.tasks.served)
    }

    /// Remaining work of a task, as of the last [`Machine::advance`].
    pub fn left(&self, task: TaskId, end: u64) -> u64 {
        let ahead = self.ahead.all.contains(&(end, task));
        let among = if ahead { &self.ahead } else { &self.tasks };
        end.saturating_sub(among.served)
    }

    /// A task that has done all its work.
    pub fn due(&self) -> Option<(u64, TaskId)> {
        self.ahead.due().or_else(|| self.tasks.due())
    }

    /// The next time at which a task ends, if nothing changes.
    pub fn next_end(&self) -> Option<u64> {
        let [ahead, others] = self.shares();
        let of = |sharing: &Sharing, (work, among): (u64, u64)| {
            let (end, _) = sharing.first()?;
            let left = end.saturating_sub(sharing.served);
            (work != 0).then(|| self.at_us + (left * among).div_ceil(work))
        };
        let ends = [of(&self.ahead, ahead), of(&self.tasks, others)];
        ends.into_iter().flatten().min()
    }
}

impl Sharing {
    fn enter(&mut self, task: TaskId, left_ns: u64) -> u64 {
        let end = self.served + left_ns;
        self.all.insert((end, task));
        end
    }

    fn first(&self) -> Option<&(u64, TaskId)> {
        self.all.first()
    }

    fn due(&self) -> Option<(u64, TaskId)> {
        let first = self.first().copied();
        first.filter(|(end, _)| *end <= self.served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_evenly_with_at_most_one_each() {
        // A core of a tenth: 1 ms of work takes 10 ms alone, 20 ms for two.
        let mut m = Machine::new(1, 100);
        m.enter(1, 1_000_000, 0);
        assert_eq!(m.next_end(), Some(10_000));
        let two = m.enter(2, 1_000_000, 5_000);
        assert_eq!(m.next_end(), Some(15_000));
        m.advance(15_000);
        assert_eq!(m.due().map(|(_, task)| task), Some(1));
        assert_eq!(m.left(2, two), 500_000);
        let mut m = Machine::new(4, 1000);
        m.enter(1, 1_000_000, 0);
        assert_eq!(m.next_end(), Some(1_000));
        m.set_foreign(7, 0);
        assert_eq!(m.next_end(), Some(2_000));
        m.advance(1_000);
        let end = m.tasks.first().map_or(0, |(end, _)| *end);
        assert_eq!(m.leave(1, end, 1_000), 500_000);
    }

    #[test]
    fn tasks_ahead_do_not_wait() {
        let mut m = Machine::new(2, 1000);
        for task in 1..=100 {
            m.enter(task, 1_000_000, 0);
        }
        let key = m.enter_ahead(200, 1_000_000, 0);
        // The others have one core meanwhile.
        assert_eq!(m.next_end(), Some(1_000));
        m.advance(1_000);
        assert_eq!(m.due(), Some((key, 200)));
        assert_eq!(m.leave(200, key, 1_000), 0);
        assert_eq!(m.left(1, 1_000_000), 990_000);
        assert_eq!(m.next_end(), Some(50_500));
    }
}
