//! How fast one core is, measured.

use crate::sys::integer_rounds;
use armento_gossip::STANDARD_SPEED;
use std::time::Instant;

/// Rounds a second on a core of speed 10000. Measured: an AMD EPYC server core of the 2020s does
/// 540 million beside a busy sibling thread, 650 alone; a round is 6 dependent cycles.
pub const STANDARD_ROUNDS_PER_S: u64 = 600_000_000;
/// One measurement: 25 microseconds on a standard core, short enough to fall between all that
/// disturbs it.
const ROUNDS: u64 = 15_000;
/// The first calibration takes this many, about 5 ms; the best counts, since everything else that
/// happens on a machine only ever slows it down.
const FIRST: usize = 200;
/// Each further look takes this many, about 0.1 ms.
const FURTHER: usize = 4;

/// The best speed seen so far; each further look may find a better one, never a worse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration(u32);

impl Calibration {
    pub fn first() -> Calibration {
        Calibration(best_of(FIRST))
    }

    /// Another short look. Changes below 2 % are noise and would only cost messages.
    pub fn refine(&mut self) {
        let seen = best_of(FURTHER);
        if u64::from(seen) * 100 > u64::from(self.0) * 102 {
            self.0 = seen;
        }
    }

    /// Speed of one whole core, [`STANDARD_SPEED`] = standard.
    pub fn speed(self) -> u32 {
        self.0
    }
}

fn best_of(times: usize) -> u32 {
    (0..times)
        .map(|_| measure())
        .max()
        .unwrap_or(STANDARD_SPEED)
}

/// By the wall's clock, which only ever runs too long. KERNEL: a virtual machine's kernel takes time that
/// the hypervisor stole away from CPU clocks when it hears of it, maybe from a later slice. Measured: of
/// 122,000 looks 267 showed less than two thirds of the real time, the shortest 0 ns of 29 us; as best
/// of all such a look made one node a hundred times as fast as its twins, for ever.
fn measure() -> u32 {
    let began = Instant::now();
    std::hint::black_box(integer_rounds(ROUNDS));
    let took_ns = (began.elapsed().as_nanos() as u64).max(1);
    let rounds_per_s = ROUNDS * 1_000_000_000 / took_ns;
    let speed = rounds_per_s * u64::from(STANDARD_SPEED) / STANDARD_ROUNDS_PER_S;
    // A clock of coarse grain may show no time at all: nobody is a hundred times the standard.
    speed.clamp(1, 100 * u64::from(STANDARD_SPEED)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_never_falls_and_is_within_bounds() {
        let mut speed = Calibration::first();
        for _ in 0..10 {
            let before = speed.speed();
            speed.refine();
            assert!(speed.speed() >= before);
        }
        assert!((1..=100 * STANDARD_SPEED).contains(&speed.speed()));
    }
}
