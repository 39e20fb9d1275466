//! Moves that are to be made: the queue, and the rule of one move of a process at a time.

use crate::sync::lock;
use armento_client::api::Dest;
use armento_migrate::{MigrateError, Result};
use armento_model::{NodeName, Pid, Stay};
use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

#[derive(Clone, Debug)]
pub enum Why {
    /// The daemon's, with its ticket.
    Order(u64),
    /// The daemon's, as the user asked.
    User(u64),
    /// The daemon's, to even out the load.
    Balance(u64),
    /// … and those that share its memory are to come along.
    BalanceAll(u64),
    Storm,
    Exec,
    /// A call that only home can serve.
    Call(Stay, String),
    /// This process of the tree opens a file of /proc about it, or observes it otherwise.
    Observed(Pid),
    /// It ends, and home's kernel is to dump its core. Tried again as often as its host asks.
    Dump,
    /// The node of its body, this one, was lost.
    Lost(NodeName),
    /// It was away before its keeper became this program. By hand: its user had placed it there.
    Back {
        by_hand: bool,
    },
    /// Its body was built again here, and has made its recorded calls again.
    Recovered,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub pid: Pid,
    pub to: Dest,
    pub why: Why,
}

/// Most tasks that wait; the oldest storms are dropped first.
const TASKS_MAX: usize = 10_000;

#[derive(Default)]
pub struct MoveQueue {
    queue: Mutex<VecDeque<Task>>,
    more: Condvar,
    /// Processes whose task comes later.
    later: Mutex<HashSet<Pid>>,
}

impl MoveQueue {
    pub fn push(&self, t: Task) {
        let mut q = lock(&self.queue);
        if q.len() < TASKS_MAX {
            q.push_back(t);
        }
        self.more.notify_one();
    }

    /// Not dropped, however many wait: it stands still until then.
    pub fn push_standing(&self, t: Task) {
        lock(&self.queue).push_back(t);
        self.more.notify_one();
    }

    /// Whether the process is the first of its number that is put off; then [`MoveQueue::come_now`] follows.
    pub fn put_off(&self, pid: Pid) -> bool {
        lock(&self.later).insert(pid)
    }

    /// A task that was put off.
    pub fn come_now(&self, t: Task) {
        lock(&self.later).remove(&t.pid);
        self.push_standing(t);
    }

    pub fn push_urgent(&self, t: Task) {
        lock(&self.queue).push_front(t);
        self.more.notify_one();
    }

    /// `pid`, which process `by` observes, is the next to move: home.
    pub fn come_first(&self, pid: Pid, by: Pid) {
        self.push_urgent(Task {
            pid,
            to: Dest::Home,
            why: Why::Observed(by),
        });
    }

    /// Whether `pid` is to come home anyway.
    pub fn is_called_home(&self, pid: Pid) -> bool {
        let queue = lock(&self.queue);
        queue.iter().any(|t| t.pid == pid && t.to == Dest::Home)
    }

    /// Takes everything out.
    pub fn drain(&self) -> Vec<Task> {
        lock(&self.queue).drain(..).collect()
    }

    pub fn len(&self) -> usize {
        lock(&self.queue).len()
    }

    pub fn pop(&self) -> Task {
        let mut q = lock(&self.queue);
        loop {
            if let Some(t) = q.pop_front() {
                return t;
            }
            q = self.more.wait(q).unwrap_or_else(|e| e.into_inner());
        }
    }
}

/// Longest wait for another move of the same process: it ends when it notices an exec.
const TURN_MAX: Duration = Duration::from_secs(30);

/// Processes that are being moved.
#[derive(Default)]
pub struct MoveLocks {
    busy: Mutex<HashSet<Pid>>,
    freed: Condvar,
}

/// The right to move these processes, until dropped.
pub struct MoveLock<'a>(&'a MoveLocks, Vec<Pid>);

impl MoveLocks {
    pub fn take(&self, pid: Pid) -> Result<MoveLock<'_>> {
        self.take_all(&[pid])
    }

    /// All of them at once.
    pub fn take_all(&self, pids: &[Pid]) -> Result<MoveLock<'_>> {
        let mut all = MoveLock(self, Vec::new());
        all.widen(pids)?;
        Ok(all)
    }
}

impl MoveLock<'_> {
    pub fn pids(&self) -> &[Pid] {
        &self.1
    }

    /// Takes these processes, too. If another move has one of them, nothing is held while that is waited for: two that
    /// wait for each other would not end. After an error nothing is held any more.
    pub fn widen(&mut self, pids: &[Pid]) -> Result<()> {
        let mut busy = lock(&self.0.busy);
        let new: Vec<Pid> = pids
            .iter()
            .filter(|p| !self.1.contains(p))
            .copied()
            .collect();
        let mut wanted = self.1.clone();
        wanted.extend(new);
        if wanted[self.1.len()..].iter().any(|p| busy.contains(p)) {
            busy.retain(|p| !self.1.contains(p));
            self.1.clear();
            self.0.freed.notify_all();
            let meets = |b: &mut HashSet<Pid>| wanted.iter().any(|p| b.contains(p));
            let waited = self.0.freed.wait_timeout_while(busy, TURN_MAX, meets);
            let (free, late) = waited.unwrap_or_else(|e| e.into_inner());
            if late.timed_out() {
                let why = "another move of it does not end".into();
                return Err(MigrateError::Stays(Stay::Busy, why));
            }
            busy = free;
        }
        busy.extend(&wanted);
        self.1 = wanted;
        Ok(())
    }
}

impl Drop for MoveLock<'_> {
    fn drop(&mut self) {
        lock(&self.0.busy).retain(|p| !self.1.contains(p));
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn one_that_waits_for_more_holds_nothing() {
        let locks = MoveLocks::default();
        let second = locks.take(2).expect("a free one");
        std::thread::scope(|s| {
            let (tx, rx) = mpsc::channel();
            let locks = &locks;
            let both = s.spawn(move || {
                let mut first = locks.take(1).expect("a free one");
                tx.send(()).expect("a reader");
                first.widen(&[1, 2]).expect("both, later");
                assert_eq!(locks.busy.lock().expect("the set").len(), 2);
            });
            rx.recv().expect("that it begins to wait");
            // It would wait for ever if the other kept its own.
            let one = locks
                .take(1)
                .expect("free while the other waits, or before");
            drop(one);
            drop(second);
            both.join().expect("both");
        });
        assert!(locks.busy.lock().expect("the set").is_empty());
    }
}
