//! How far the clocks of joiner and member are apart, of the one question and answer of a join.
//!
//! RFC 5905, 8: two moments of each side; what passed at the member between them does not count.

use serde::{Deserialize, Serialize};

/// The member's own, nanoseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    pub heard_ns: i64,
    pub answered_ns: i64,
}

/// The member's clock is `ahead_ns` ahead of ours, give or take half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    pub ahead_ns: i64,
    pub trip_ns: i64,
}

/// The offset, of a question sent at `asked_ns` whose answer came at `heard_ns`; `there` is the member's part.
pub fn measure(asked_ns: i64, there: Moments, heard_ns: i64) -> Offset {
    let (there_ns, back_ns) = (
        there.heard_ns.saturating_sub(asked_ns),
        there.answered_ns.saturating_sub(heard_ns),
    );
    // Halves first: clocks may be centuries apart.
    let ahead_ns = there_ns / 2 + back_ns / 2;
    Offset {
        ahead_ns,
        trip_ns: there_ns.saturating_sub(back_ns).max(0),
    }
}

impl Offset {
    /// They are at least so far apart.
    pub fn apart_ns(self) -> i64 {
        (self.ahead_ns.saturating_abs() - self.trip_ns / 2).max(0)
    }
}

/// A span as people read it: `214 ms`, `3 h 12 min`, `7 years`.
pub fn span(ns: i64) -> String {
    let ms = ns.saturating_abs() / 1_000_000;
    let (s, min, h, day) = (1_000, 60_000, 3_600_000, 86_400_000);
    match ms {
        0 => format!("{:.1} ms", ns.saturating_abs() as f64 / 1e6),
        ms if ms < 10 * s => format!("{ms} ms"),
        ms if ms < 2 * min => format!("{} s", ms / s),
        ms if ms < 2 * h => format!("{} min", ms / min),
        ms if ms < 2 * day => format!("{} h {} min", ms / h, ms % h / min),
        ms if ms < 730 * day => format!("{} days", ms / day),
        ms => format!("{} years", ms / (365 * day)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spent_at_the_member_does_not_count() {
        let ms = 1_000_000;
        let check = |asked: i64, heard: i64, answered: i64, back: i64, want: (i64, i64)| {
            let there = Moments {
                heard_ns: heard * ms,
                answered_ns: answered * ms,
            };
            let got = measure(asked * ms, there, back * ms);
            assert_eq!((got.ahead_ns / ms, got.trip_ns / ms), want);
        };
        check(1000, 1001, 5001, 5002, (0, 2));
        check(1000, 1301, 5301, 5002, (300, 2));
        check(1000, 701, 4701, 5002, (-300, 2));
        let there = Moments {
            heard_ns: i64::MAX,
            answered_ns: i64::MAX,
        };
        assert!(measure(i64::MIN, there, i64::MIN).apart_ns() > 0);
    }

    #[test]
    fn spans_have_readable_units() {
        let check = |ms: i64, want: &str| assert_eq!(span(ms * 1_000_000), want);
        check(214, "214 ms");
        check(-9_999, "9999 ms");
        check(75_000, "75 s");
        check(600_000, "10 min");
        check(11_520_000, "3 h 12 min");
        check(3 * 86_400_000, "3 days");
        check(7 * 365 * 86_400_000, "7 years");
        assert_eq!(span(300_000), "0.3 ms");
    }
}
