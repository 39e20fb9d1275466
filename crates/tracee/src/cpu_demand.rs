//! Measures how much CPU time a process would use if it could.

use crate::{cpu, status};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A process with one thread runnable for this share of the time, percent, counts as needing a whole processor.
const FULL: u64 = 90;
/// Limit of threads read in one measurement: the busiest is probably among the first.
const THREADS_MAX: usize = 64;

/// Stores how long each thread had been runnable at the last measurement.
#[derive(Clone, Debug)]
pub struct Demand {
    at: Instant,
    had: HashMap<i32, u64>,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand {
            at: Instant::now(),
            had: HashMap::new(),
        }
    }
}

impl Demand {
    /// The share of the time since the last measurement, percent, in which the busiest of these threads was runnable
    /// (on a processor or waiting for one). Each thread comes with nanoseconds to be added. `without` is the part of
    /// that time in which no thread could run.
    pub fn look(&mut self, threads: impl Iterator<Item = (i32, u64)>, without: Duration) -> u8 {
        let past = self.at.elapsed().saturating_sub(without);
        let past_ns = (past.as_nanos() as u64).max(1);
        self.at = Instant::now();
        let mut have = HashMap::new();
        let mut most = 0;
        for (tid, more_ns) in threads.take(THREADS_MAX) {
            let wanted = match cpu::wanted_ns(tid) {
                Some(ns) => {
                    have.insert(tid, ns);
                    // A new thread counts only from now on.
                    ns.saturating_sub(self.had.get(&tid).copied().unwrap_or(0))
                }
                None if status::thread_state(tid) == Some('R') => past_ns,
                None => 0,
            };
            most = most.max((wanted + more_ns) * 100 / past_ns);
        }
        self.had = have;
        if most >= FULL { 100 } else { most as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> i32 {
        let link = std::fs::read_link("/proc/thread-self").expect("own thread");
        let name = link.file_name().and_then(|n| n.to_str()).expect("a number");
        name.parse().expect("a number")
    }

    #[test]
    fn sleeping_thread_has_no_demand_and_spinning_thread_full_demand() {
        let (tx, rx) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let _ = tx.send(me());
            std::thread::sleep(Duration::from_millis(400));
        });
        let tid = rx.recv().expect("its number");
        let (me, none) = (me(), Duration::ZERO);
        let (mut idle, mut busy) = (Demand::default(), Demand::default());
        idle.look([(tid, 0)].into_iter(), none);
        busy.look([(me, 0)].into_iter(), none);
        let then = Instant::now();
        while then.elapsed() < Duration::from_millis(200) {}
        assert!(idle.look([(tid, 0)].into_iter(), none) < 20);
        assert!(busy.look([(me, 0)].into_iter(), none) > 50);
        assert!(idle.look([(tid, 1_000_000_000)].into_iter(), none) == 100);
        // So little of the 200 ms was available that it was runnable for all of it.
        let (mut kept, then) = (Demand::default(), Instant::now());
        kept.look([(me, 0)].into_iter(), none);
        while then.elapsed() < Duration::from_millis(20) {}
        std::thread::sleep(Duration::from_millis(180));
        let without = Duration::from_millis(180);
        assert!(kept.look([(me, 0)].into_iter(), without) > 50);
        sleeper.join().expect("it only sleeps");
    }
}
