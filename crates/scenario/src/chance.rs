//! Repeatable random numbers.

use armento_gossip::Dice;

/// Steps between 0 and 1.
const STEPS: usize = 1 << 53;
/// Tail exponent of heavy-tailed lengths.
const ALPHA: f64 = 1.5;

pub struct Chance(Dice);

impl Chance {
    pub fn seeded(seed: u64) -> Chance {
        Chance(Dice::seeded(seed))
    }

    /// Uniform, above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.below(STEPS) + 1) as f64 / STEPS as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Pareto distribution with this mean.
    pub fn pareto(&mut self, mean: f64) -> f64 {
        mean * (ALPHA - 1.0) / ALPHA * self.unit().powf(-1.0 / ALPHA)
    }
}
