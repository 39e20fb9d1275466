//! A node's monotonic clock, which may run too fast or too slow.

use armento_gossip::Tick;

/// A node's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// The clock showed `shown_us` at `from_us`, and has run too fast by this much since.
    from_us: u64,
    shown_us: u64,
    ppm: i64,
}

impl Clock {
    pub fn at(&self, now_us: u64) -> Tick {
        Tick(self.shows_us(now_us) / 1000)
    }

    pub fn shows_us(&self, now_us: u64) -> u64 {
        let past = now_us.saturating_sub(self.from_us);
        let gained = past as i128 * i128::from(self.ppm) / 1_000_000;
        self.shown_us + (past as i128 + gained).max(0) as u64
    }

    pub fn runs(&mut self, ppm: i64, now_us: u64) {
        *self = Clock {
            from_us: now_us,
            shown_us: self.shows_us(now_us),
            ppm,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_clock_never_goes_back() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(5_000_000), Tick(5_000));
        clock.runs(100_000, 10_000_000);
        assert_eq!(clock.at(20_000_000), Tick(21_000));
        clock.runs(-500_000, 20_000_000);
        assert_eq!(clock.at(20_000_000), Tick(21_000));
        assert_eq!(clock.at(30_000_000), Tick(26_000));
    }
}
