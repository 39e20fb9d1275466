//! What is known of another node's clock.
//!
//! PAPER: Cristian, Probabilistic clock synchronization, 1989: of several questions the one that was answered
//! quickest says best, to half of its round trip.

use super::offset::span;
use armento_model::NodeName;
use std::time::{Duration, Instant};

/// Times of files are those of the last tick: 10 ms with HZ=100, once on each side.
pub const APART_MAX_NS: i64 = 20_000_000;
/// A clock that was seen apart counts as apart for this long: in a large farm each is asked again late.
const BELIEVED: Duration = Duration::from_secs(600);

/// One answer: the other clock is `ahead_ns` ahead of ours, give or take half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub trip_ns: i64,
    pub ahead_ns: i64,
}

impl Seen {
    /// Of a question sent at `asked`, answered with the time `there`, which came at `heard`.
    pub fn new(asked: i64, there: i64, received: i64) -> Seen {
        let trip_ns = (received - asked).max(0);
        Seen {
            trip_ns,
            ahead_ns: there - (asked + trip_ns / 2),
        }
    }

    /// The least distance of the two clocks.
    pub fn apart_ns(self) -> i64 {
        (self.ahead_ns.abs() - self.trip_ns / 2).max(0)
    }
}

/// What was seen of another node's clock, in which life of that node, and when.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub life: u64,
    pub at: Instant,
    /// `None`: it did not answer.
    pub seen: Option<Seen>,
    /// Round trip of the connection to it, as the kernel measured it, microseconds.
    pub rtt_us: Option<u64>,
}

impl Known {
    /// How far it is ahead of ours, microseconds.
    pub fn ahead_us(&self) -> Option<i64> {
        self.seen.map(|s| s.ahead_ns / 1_000)
    }

    /// Nothing can move between the two nodes, as of the last answer.
    pub fn is_apart(&self) -> bool {
        self.seen.is_some_and(|s| s.apart_ns() > APART_MAX_NS) && self.at.elapsed() < BELIEVED
    }
}

/// For people: how far the clock of `name` is from ours.
pub fn clock_note(name: &NodeName, ahead_us: i64) -> String {
    let which = if ahead_us > 0 { "ahead" } else { "behind" };
    format!(
        "that of {name} is {} {which}, at most {} ms are good",
        span(ahead_us.saturating_mul(1_000)),
        APART_MAX_NS / 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_proves_no_distance() {
        let ms = 1_000_000;
        let check = |asked: i64, there: i64, received: i64, want: i64| {
            let seen = Seen::new(asked * ms, there * ms, received * ms);
            assert_eq!(seen.apart_ns(), want * ms, "{asked} {there} {received}");
        };
        check(1000, 1001, 1002, 0);
        check(1000, 1031, 1002, 29);
        check(1000, 971, 1002, 29);
        // A slow answer says little.
        check(1000, 1051, 1100, 0);
        check(1000, 1131, 1100, 31);
    }
}
