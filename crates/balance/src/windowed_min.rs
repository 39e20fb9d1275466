//! What is so now, and what was so for a while.

use armento_gossip::Tick;

/// A count that met somebody passing by is forgotten after so long, or twice as long: what one sample a second makes of two who
/// passed, 75, is 28, 10 and 3 in the next (`account.rs`, `smoothed`).
const STEADY_MS: u64 = 2_000;

/// A value and the least that it was lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    last: u64,
    /// In this spell and in the one before.
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
    fn who_passes_by_is_not_seen_and_who_stays_is() {
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
        // After a long silence what is so now is all that is known.
        check(60_000, 90, 90);
    }
}
