//! A value, its minimum over a recent window, and its mean.

use armento_gossip::Tick;

/// A short load is forgotten after this time, or twice this time: from two passing processes a sample a second makes
/// 75, then 28, 10 and 3 (`account.rs`, `smoothed`).
const STEADY_MS: u64 = 2_000;

/// The mean is that of about this time.
const MEAN_MS: u64 = 5_000;

/// A value, its recent minimum and its mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    last: u64,
    /// In this window and in the one before.
    least: [u64; 2],
    since: Tick,
    /// In thousandths.
    mean: u64,
    at: Tick,
}

impl Steady {
    pub fn new(value: u64, now: Tick) -> Steady {
        Steady {
            last: value,
            least: [value; 2],
            since: now,
            mean: value.saturating_mul(1000),
            at: now,
        }
    }

    pub fn set(&mut self, value: u64, now: Tick) {
        let past_ms = now.since(self.at);
        self.at = now;
        let (kept, new) = (
            u128::from(self.mean) * u128::from(MEAN_MS),
            u128::from(value) * 1000,
        );
        let mean = (kept + new * u128::from(past_ms)) / u128::from(MEAN_MS + past_ms);
        self.mean = u64::try_from(mean).unwrap_or(u64::MAX);
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

    pub fn mean(&self) -> u64 {
        self.mean / 1000
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

    #[test]
    fn mean_of_work_in_bursts_hardly_changes() {
        let mut others = Steady::new(0, Tick(0));
        for at in (100..30_000).step_by(100) {
            let value = if at / 1000 % 2 == 0 { 100 } else { 0 };
            others.set(value, Tick(at));
            let mean = others.mean();
            assert!(at < 15_000 || (35..65).contains(&mean), "{at}: {mean}");
        }
        others.set(u64::MAX, Tick(u64::MAX));
    }
}
