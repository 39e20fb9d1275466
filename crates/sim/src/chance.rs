//! Random but repeatable farms and jobs.

use crate::world::{Job, Rack};
use armento_gossip::Dice;

/// PAPER: process lifetimes have a tail in which each lives on as long as it has lived, Pr(T > t) = 1/t (Harchol-Balter
/// and Downey 1997, who found the exponent near −1).
const TAIL: f64 = 1.0;

/// Programs that arrive one after another, independently, and of which a few do most of the work.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    /// Rate of the whole farm.
    pub per_s: f64,
    pub from_us: u64,
    pub until_us: u64,
    /// Work of the shortest and of the longest, milliseconds of a standard core.
    pub work_ms: (u64, u64),
    pub rss_kib: (u64, u64),
}

impl Arrivals {
    /// Homes are chosen evenly at random; each program is placed at its exec.
    pub fn on(&self, nodes: usize, dice: &mut Dice) -> Vec<Job> {
        let mut at = self.from_us as f64;
        let mut jobs = Vec::new();
        loop {
            // Exponential gaps are a Poisson process.
            at -= unit(dice).ln() * 1e6 / self.per_s;
            if at >= self.until_us as f64 {
                return jobs;
            }
            jobs.push(Job {
                home: dice.below(nodes),
                start_us: at as u64,
                work_ns: tail(dice, self.work_ms) * 1_000_000,
                rss_kib: tail(dice, self.rss_kib),
                placed: true,
                copy: None,
            });
        }
    }
}

/// Nodes of one to sixteen cores, of half to double speed, with one to eight GiB a core.
pub fn mixed(nodes: usize, dice: &mut Dice) -> Vec<Rack> {
    let rack = |_| {
        let cores = 1 << dice.below(5);
        Rack {
            cores,
            speed_milli: 500 + dice.below(1500) as u64,
            mem_kib: (u64::from(cores) << 20) << dice.below(4),
        }
    };
    (0..nodes).map(rack).collect()
}

/// Above 0, at most 1.
fn unit(dice: &mut Dice) -> f64 {
    (dice.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64
}

/// A truncated Pareto tail.
fn tail(dice: &mut Dice, (least, most): (u64, u64)) -> u64 {
    let long = least as f64 / unit(dice).powf(1.0 / TAIL);
    (long as u64).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_given_rate_and_few_are_long() {
        let arrivals = Arrivals {
            per_s: 50.0,
            from_us: 1_000_000,
            until_us: 101_000_000,
            work_ms: (100, 100_000),
            rss_kib: (1000, 1000),
        };
        let jobs = arrivals.on(10, &mut Dice::seeded(3));
        // 5000 expected; six standard deviations are 424.
        assert!((4576..=5424).contains(&jobs.len()), "{}", jobs.len());
        let longer = |ms: u64| jobs.iter().filter(|j| j.work_ns > ms * 1_000_000).count();
        let share = |ms| longer(ms) as f64 / jobs.len() as f64;
        assert!((0.4..0.6).contains(&share(200)), "{}", share(200));
        assert!((0.005..0.02).contains(&share(10_000)), "{}", share(10_000));
        assert!(jobs.iter().all(|j| j.home < 10 && j.start_us >= 1_000_000));
    }
}
