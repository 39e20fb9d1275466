//! Averages of what a process does with files of one node.

use crate::file_use::{Counts, Traffic};
use armento_model::FileRates;

/// Share of the past that is kept each second, thousandths. PAPER: MOSIX keeps 5 of 8 of a mean load.
const KEEP_PERMILLE: u64 = 625;
/// Steps of one second after which nothing is left.
const STEPS_MAX: u64 = 128;
/// What was seen for less than this is no figure.
const SEEN_MS_MIN: u64 = 400;
/// A longer time between two reports counts as so much, with its mean.
const COUNTS_MS_MAX: u64 = 2_000;
/// CPU time counts as at least this much in a rate: calls at a start are few in all.
const CPU_US_MIN: u64 = 50_000;

/// Sums that forget slowly, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    cpu_us: u64,
    wall_ms: u64,
    waits: u64,
    posts: u64,
    sent: u64,
    received: u64,
}

impl Meter {
    /// Adds what happened in `past_ms`; `cpu_us` of a standard core.
    pub fn add(&mut self, more: Counts, cpu_us: u64, past_ms: u64) {
        for sum in self.sums() {
            *sum = kept(*sum, past_ms);
        }
        let more = [
            cpu_us,
            past_ms,
            more.waits,
            more.posts,
            more.sent,
            more.received,
        ];
        let counts_ms = past_ms.min(COUNTS_MS_MAX);
        for (sum, more) in self.sums().into_iter().zip(more) {
            let more = ratio(more, 1000 * counts_ms, past_ms);
            *sum = sum.saturating_add(more);
        }
    }

    fn sums(&mut self) -> [&mut u64; 6] {
        [
            &mut self.cpu_us,
            &mut self.wall_ms,
            &mut self.waits,
            &mut self.posts,
            &mut self.sent,
            &mut self.received,
        ]
    }

    /// For each second of CPU time; `None` before there is a figure.
    pub fn traffic(&self) -> Option<Traffic> {
        if self.wall_ms < SEEN_MS_MIN * 1000 {
            return None;
        }
        let cpu_us = (self.cpu_us / 1000).max(CPU_US_MIN);
        let each = |sum: u64| ratio(sum, 1_000, cpu_us);
        Some(Traffic {
            waits: each(self.waits),
            posts: each(self.posts),
            bytes: each(self.sent.saturating_add(self.received)),
        })
    }

    /// For each second of time.
    pub fn rates(&self) -> FileRates {
        let each = |sum: u64| ratio(sum, 1, (self.wall_ms / 1000).max(SEEN_MS_MIN));
        FileRates {
            waits: each(self.waits),
            posts: each(self.posts),
            sent: each(self.sent),
            received: each(self.received),
        }
    }

    /// Share of its time in which it computed, thousandths of a standard core.
    pub fn computes_permille(&self) -> u64 {
        ratio(self.cpu_us, 1, self.wall_ms.max(1)).min(1000)
    }
}

/// `sum * times / over`, for sums of any size.
fn ratio(sum: u64, times: u64, over: u64) -> u64 {
    let ratio = u128::from(sum) * u128::from(times) / u128::from(over.max(1));
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

fn kept(sum: u64, past_ms: u64) -> u64 {
    let whole = (past_ms / 1000).min(STEPS_MAX);
    let sum = (0..whole).fold(sum, |sum, _| ratio(sum, KEEP_PERMILLE, 1000));
    let part = (1000 - KEEP_PERMILLE) * (past_ms % 1000) / 1000;
    ratio(sum, 1000 - part, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_means_of_some_seconds() {
        let calls = |waits, sent| Counts {
            waits,
            sent,
            ..Counts::default()
        };
        let mut meter = Meter::default();
        meter.add(calls(1000, 0), 10_000, 100);
        assert_eq!(meter.traffic(), None, "too short");
        // 1000 calls a second, half of its time computing.
        for _ in 0..40 {
            meter.add(calls(500, 1 << 20), 250_000, 500);
        }
        let rates = meter.rates();
        assert!((990..1010).contains(&rates.waits), "{rates:?}");
        assert_eq!(rates.received, 0);
        let traffic = meter.traffic().expect("long enough");
        assert!((1980..2020).contains(&traffic.waits), "{traffic:?}");
        assert!((traffic.bytes / traffic.waits).abs_diff((1 << 20) / 500) < 60);
        assert!((490..=510).contains(&meter.computes_permille()));
        // Without calls the rate falls by half in one and a half.
        for _ in 0..3 {
            meter.add(calls(0, 0), 250_000, 500);
        }
        let rates = meter.rates();
        assert!((430..570).contains(&rates.waits), "{rates:?}");
        // A node may report anything.
        meter.add(calls(u64::MAX, u64::MAX), u64::MAX, u64::MAX);
        meter.add(calls(u64::MAX, u64::MAX), 0, 1);
        let _ = (meter.traffic(), meter.rates(), meter.computes_permille());
    }
}
