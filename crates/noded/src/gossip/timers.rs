//! The timers that foca asks for.

use crate::state::Life;
use foca::Timer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tokio::time::Instant;

/// At once; foca keeps a handful a member.
const TIMERS_MAX: usize = 100_000;

/// A timer of foca's; equal moments in foca's own order.
#[derive(PartialEq, Eq)]
struct Due {
    at: Instant,
    timer: Timer<Life>,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        let by_kind = || {
            let order = self.timer.partial_cmp(&other.timer);
            order.unwrap_or(std::cmp::Ordering::Equal)
        };
        self.at.cmp(&other.at).then_with(by_kind)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub struct Timers(BinaryHeap<Reverse<Due>>);

impl Timers {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(d)| d.at)
    }

    pub fn set(&mut self, at: Instant, timer: Timer<Life>) {
        if self.0.len() < TIMERS_MAX {
            self.0.push(Reverse(Due { at, timer }));
        }
    }

    /// The first one, if it is due.
    pub fn pop(&mut self, now: Instant) -> Option<Timer<Life>> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.0.pop().map(|Reverse(due)| due.timer)
    }
}
