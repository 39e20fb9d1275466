//! How much of a processor a process wants.

use crate::{cpu, status};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A process of which one thread wants so much of its time, percent, wants a whole processor.
const FULL: u64 = 90;
/// More threads are not asked at one look: the busiest is likely among the first.
const THREADS_MAX: usize = 64;

/// Remembers how long each thread had wanted a processor at the last look.
#[derive(Debug)]
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
    /// The share of the time since the last look, percent, in which the busiest of these threads had a
    /// processor or stood in line for one. Each comes with nanoseconds that are to count as well. `without` of that
    /// time nobody could have run.
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
                    // Who is new has wanted it only since then.
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
    fn who_sleeps_wants_nothing_and_who_spins_all() {
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
        // Of 200 ms so few were left to run in that it wanted all of those.
        let (mut kept, then) = (Demand::default(), Instant::now());
        kept.look([(me, 0)].into_iter(), none);
        while then.elapsed() < Duration::from_millis(20) {}
        std::thread::sleep(Duration::from_millis(180));
        let without = Duration::from_millis(180);
        assert!(kept.look([(me, 0)].into_iter(), without) > 50);
        sleeper.join().expect("it only sleeps");
    }
}
