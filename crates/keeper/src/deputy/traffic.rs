//! Which descriptors of bodies their calls are made on, to find connections that are used much.
//!
//! From: `wait_loop.rs`. Next: `keeper/src/sockets`.

use crate::sync::lock;
use armento_model::Pid;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A connection is worth a look after so many calls that moved bytes …
const CALLS_MIN: u32 = 64;
/// … within this time.
const WITHIN: Duration = Duration::from_secs(1);
/// Descriptors that are counted at once; more begin anew.
const COUNTED_MAX: usize = 1024;
/// Found ones that may wait to be looked at.
const BUSY_MAX: usize = 64;
/// One that was found is not found again for so long, unless told otherwise.
const PAUSE: Duration = Duration::from_secs(2);

struct Count {
    calls: u32,
    since: Instant,
    not_before: Option<Instant>,
}

/// Counts of one tree.
#[derive(Default)]
pub struct Traffic {
    counts: Mutex<HashMap<(Pid, i32), Count>>,
    busy: Mutex<VecDeque<(Pid, i32)>>,
    some: Condvar,
}

impl Traffic {
    /// A call of a body has moved bytes.
    pub fn count(&self, pid: Pid, fd: i32, now: Instant) {
        let mut all = lock(&self.counts);
        if all.len() >= COUNTED_MAX && !all.contains_key(&(pid, fd)) {
            all.clear();
        }
        let c = all.entry((pid, fd)).or_insert(Count {
            calls: 0,
            since: now,
            not_before: None,
        });
        if now.duration_since(c.since) > WITHIN {
            (c.calls, c.since) = (0, now);
        }
        c.calls += 1;
        if c.calls < CALLS_MIN || c.not_before.is_some_and(|t| now < t) {
            return;
        }
        c.not_before = Some(now + PAUSE);
        drop(all);
        let mut busy = lock(&self.busy);
        if busy.len() < BUSY_MAX {
            busy.push_back((pid, fd));
            self.some.notify_one();
        }
    }

    /// A descriptor is not found again before this.
    pub fn pause(&self, pid: Pid, fd: i32, until: Instant) {
        if let Some(c) = lock(&self.counts).get_mut(&(pid, fd)) {
            (c.calls, c.not_before) = (0, Some(until));
        }
    }

    /// Waits for the next descriptor that is used much.
    pub fn next(&self) -> (Pid, i32) {
        let mut busy = lock(&self.busy);
        loop {
            if let Some(one) = busy.pop_front() {
                return one;
            }
            busy = self.some.wait(busy).unwrap_or_else(|e| e.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_much_is_found_once_in_a_while() {
        let t = Traffic::default();
        let begin = Instant::now();
        let found = || lock(&t.busy).len();
        let calls = |n: u32, at: Instant| (0..n).for_each(|_| t.count(7, 3, at));
        calls(CALLS_MIN - 1, begin);
        // Too slow: the count begins anew.
        calls(CALLS_MIN - 1, begin + WITHIN + Duration::from_millis(1));
        assert_eq!(found(), 0);
        calls(1, begin + WITHIN + Duration::from_millis(1));
        assert_eq!(t.next(), (7, 3));
        calls(2 * CALLS_MIN, begin + 2 * WITHIN);
        assert_eq!(found(), 0, "it was found a moment ago");
        calls(2 * CALLS_MIN, begin + WITHIN + 2 * PAUSE);
        assert_eq!(found(), 1);
        t.pause(7, 3, begin + 100 * PAUSE);
        calls(2 * CALLS_MIN, begin + 50 * PAUSE);
        assert_eq!(found(), 1);
    }
}
