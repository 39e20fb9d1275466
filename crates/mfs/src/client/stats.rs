//! Counters of a mount.

use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// One for each node and user with whom there is or was a stream.
    pub nodes: Vec<NodeStats>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStats {
    pub node: NodeName,
    pub uid: u32,
    pub connected: bool,
    pub calls: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub reconnects: u64,
    /// Calls that ended because the node did not answer.
    pub errors: u64,
    pub open_files: u64,
    /// Microseconds from a request to its answer: half of them, and 99 of 100, took no longer.
    pub latency_p50_us: u64,
    pub latency_p99_us: u64,
    /// Names and attributes that the mount had kept and that were changed.
    pub invalidations: u64,
}

/// Four steps for each power of two of microseconds: a percentile is wrong by a fifth at most.
const STEPS: usize = 4;
const BUCKETS: usize = 28 * STEPS;

pub struct Latency([AtomicU64; BUCKETS]);

impl Default for Latency {
    fn default() -> Latency {
        Latency([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Latency {
    pub fn add(&self, d: Duration) {
        let us = (d.as_micros() as u64).max(1);
        let power = us.ilog2() as usize;
        let part = ((us << 2 >> power) & 3) as usize;
        self.0[(power * STEPS + part).min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// The upper limit of the step in which this share of all lies.
    pub fn percentile(&self, percent: u64) -> u64 {
        let counts: Vec<u64> = self.0.iter().map(|c| c.load(Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let mut left = (all * percent).div_ceil(100);
        for (i, c) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            left = left.saturating_sub(*c);
            if left == 0 {
                let (power, part) = (i / STEPS, (i % STEPS) as u64);
                return ((5 + part) << power) >> 2;
            }
        }
        0
    }
}

#[derive(Default)]
pub struct Counters {
    pub calls: AtomicU64,
    pub read: AtomicU64,
    pub written: AtomicU64,
    pub reconnects: AtomicU64,
    pub errors: AtomicU64,
    pub open: AtomicU64,
    pub invalidations: AtomicU64,
    pub latency: Latency,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_by_a_fifth() {
        let l = Latency::default();
        assert_eq!(l.percentile(50), 0);
        for us in 1..=1000 {
            l.add(Duration::from_micros(us));
        }
        let near = |p: u64, want: u64| {
            let got = l.percentile(p);
            assert!(got >= want && got <= want * 5 / 4 + 1, "{p}: {got}");
        };
        near(50, 500);
        near(99, 990);
    }
}
