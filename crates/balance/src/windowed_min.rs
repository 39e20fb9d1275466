//! A value and its minimum over a recent window.

use armento_gossip::Tick;

/// A short load is forgotten after this time, or twice this time: from two passing processes a sample a second makes
/// 75, then 28, 10 and 3 (`account.rs`, `smoothed`).
const STEADY_MS: u64 = 2_000;

/// A value and its recent minimum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    last: u64,
    /// In this window and in the one before.
    least: [u64; 2],
    since: Tick,
}

impl Steady {
    pub fn new(value: u64, now: Tick) -> Steady {
        Steady {
            last: value,
            least: [value; 2],
            since: now,
        }
    }

    pub fn set(&mut self, value: u64, now: Tick) {
        self.last = value;
        let spell = now.since(self.since);
        if spell < STEADY_MS {
            self.least[0] = self.least[0].min(value);
            return;
        }
        let before = if spell < 2 * STEADY_MS {
            self.least[0]
        } else {
            value
        };
        self.least = [value, before];
        self.since = now;
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn least(&self) -> u64 {
        self.least[0].min(self.least[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_load_is_ignored_and_lasting_load_counts() {
        let mut others = Steady::new(0, Tick(0));
        let mut check = |at, value, want| {
            others.set(value, Tick(at));
            assert_eq!((others.last(), others.least()), (value, want), "{at}");
        };
        check(1_000, 37, 0);
        check(2_000, 14, 0);
        check(3_000, 5, 0);
        check(4_000, 0, 0);
        check(5_000, 40, 0);
        check(6_000, 60, 0);
        check(7_000, 70, 0);
        check(8_000, 80, 60);
        // After a long silence only the current value is known.
        check(60_000, 90, 90);
    }
}
