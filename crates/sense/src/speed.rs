//! Measures the speed of one core: integers, floating point, and memory beyond its own caches.

use crate::sys::{float_rounds, integer_rounds};
use armento_gossip::STANDARD_SPEED;
use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

/// Rounds a second on a core of speed 10000. Measured: an AMD EPYC server core of the 2020s does 540 million beside a
/// busy sibling thread, 650 alone; a round is 6 dependent cycles.
pub const STANDARD_ROUNDS_PER_S: u64 = 600_000_000;
/// The same for floating point, on the same core: a round is a dependent multiplication and addition, 6 cycles.
const STANDARD_FLOATS_PER_S: u64 = 600_000_000;
/// Dependent reads from memory, on the same core and in [`LINES`]: its third-level cache, which other cores share.
/// Measured: 23 to 68 million within a minute, so that the mix was between 0.95 and 1.05.
const STANDARD_READS_PER_S: u64 = 45_000_000;
/// Size of one measurement: 25 microseconds on a standard core, short enough to fit between disturbances.
const ROUNDS: u64 = 15_000;
const FLOATS: u64 = 15_000;
const READS: u64 = 1_000;
/// Cache lines of the random reads: 4 MiB, beyond a core's own caches.
const LINES: usize = 65_536;
/// Machine words of a line.
const LINE: usize = 8;
/// Tenths of a program's time. PAPER: Weicker's Dhrystone, a mix counted in real programs, has hardly any floating
/// point; today's numerical programs are half of it. Hence mostly integers, and some of each.
const OF_INTEGER: u64 = 6;
const OF_FLOAT: u64 = 3;
const OF_MEMORY: u64 = 1;
/// Number of measurements of each kind at first, about 15 ms; the best counts, since all disturbances only slow it
/// down.
const FIRST: usize = 200;
/// Number of each further measurement, about 0.2 ms.
const FURTHER: usize = 4;

/// The best speeds seen so far; further measurements may find better ones, never worse, until the clock changes.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    integer: u64,
    float: u64,
    memory: u64,
    clock: Option<u64>,
}

impl Calibration {
    pub fn first() -> Calibration {
        Calibration {
            integer: best_of(FIRST, integer),
            float: best_of(FIRST, float),
            memory: memory(),
            clock: clock(),
        }
    }

    /// Another short measurement. Changes below 2 % are noise and would only cost messages.
    pub fn refine(&mut self) {
        let better = |known: &mut u64, seen: u64| {
            if seen * 100 > *known * 102 {
                *known = seen;
            }
        };
        better(&mut self.integer, best_of(FURTHER, integer));
        better(&mut self.float, best_of(FURTHER, float));
    }

    /// Measures again when the machine's maximum clock has changed: a power profile, a thermal limit.
    pub fn follow_clock(&mut self) {
        if clock() != self.clock {
            *self = Calibration::first();
        }
    }

    /// Speed of one whole core, [`STANDARD_SPEED`] = standard: the inverse time for a program of the mix.
    pub fn speed(&self) -> u32 {
        mixed([self.integer, self.float, self.memory])
    }
}

/// A slow part takes a long time of the mix.
fn mixed(speeds: [u64; 3]) -> u32 {
    let parts = [OF_INTEGER, OF_FLOAT, OF_MEMORY];
    let standard = f64::from(STANDARD_SPEED);
    let takes = |(speed, part): (u64, u64)| part as f64 * standard / speed.max(1) as f64;
    let time: f64 = speeds.into_iter().zip(parts).map(takes).sum();
    let speed = parts.iter().sum::<u64>() as f64 * standard / time;
    (speed as u32).clamp(1, SPEED_MAX as u32)
}

/// A coarse clock may show no time at all: no core is a hundred times the standard.
const SPEED_MAX: u64 = 100 * STANDARD_SPEED as u64;

fn best_of(times: usize, look: impl Fn() -> u64) -> u64 {
    (0..times).map(|_| look()).max().unwrap_or(1)
}

fn integer() -> u64 {
    speed_of(ROUNDS, STANDARD_ROUNDS_PER_S, || {
        black_box(integer_rounds(ROUNDS));
    })
}

fn float() -> u64 {
    speed_of(FLOATS, STANDARD_FLOATS_PER_S, || {
        black_box(float_rounds(FLOATS));
    })
}

/// The lines are freed afterwards.
fn memory() -> u64 {
    let (next, last) = (ring(), Cell::new(0));
    // Each measurement continues where the last one ended: the same lines would be cached.
    let look = || {
        speed_of(READS, STANDARD_READS_PER_S, || {
            let mut at = last.get();
            for _ in 0..READS {
                at = next[at];
            }
            last.set(black_box(at));
        })
    };
    best_of(FIRST, look)
}

/// Each line has the index of the next; one cycle contains all of them, and no prefetcher predicts it.
fn ring() -> Vec<usize> {
    // Steps of a linear congruential generator of full period. PAPER: Hull and Dobell 1962.
    const FACTOR: usize = 40_173;
    const MORE: usize = 13_849;
    let mut next = vec![0; LINES * LINE];
    for at in 0..LINES {
        next[at * LINE] = (at * FACTOR + MORE) % LINES * LINE;
    }
    next
}

/// By the wall clock: its errors only lengthen the time. KERNEL: a virtual machine's kernel subtracts stolen time
/// from CPU clocks when the hypervisor reports it, maybe from a later slice. Measured: of 122,000 measurements 267 had
/// less than two thirds of the real time, the shortest 0 ns of 29 us; as the best of all such a value made one node a
/// hundred times as fast as its twins, permanently.
fn speed_of(rounds: u64, standard_per_s: u64, work: impl FnOnce()) -> u64 {
    let began = Instant::now();
    work();
    let took_ns = (began.elapsed().as_nanos() as u64).max(1);
    let per_s = rounds * 1_000_000_000 / took_ns;
    (per_s * u64::from(STANDARD_SPEED) / standard_per_s).clamp(1, SPEED_MAX)
}

/// The highest clock that the first core may have, kHz. KERNEL: Documentation/admin-guide/pm/cpufreq.rst.
fn clock() -> Option<u64> {
    let file = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq";
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_never_falls_and_is_within_bounds() {
        let mut speed = Calibration::first();
        for _ in 0..10 {
            let before = speed.speed();
            speed.refine();
            assert!(speed.speed() >= before);
        }
        assert!((1..=100 * STANDARD_SPEED).contains(&speed.speed()));
        println!("{speed:?}: {}", speed.speed());
        speed.clock = Some(1);
        speed.follow_clock();
        assert_eq!(speed.clock, clock());
    }

    #[test]
    fn parts_are_weighted_by_time() {
        assert_eq!(mixed([10_000; 3]), 10_000);
        assert_eq!(mixed([20_000; 3]), 20_000);
        // Nine tenths in half the time, one as before.
        assert_eq!(mixed([20_000, 20_000, 10_000]), 18_181);
        assert_eq!(mixed([0; 3]), 1);
    }

    #[test]
    fn one_cycle_contains_all_lines() {
        let next = ring();
        let mut at = 0;
        for step in 1..=LINES {
            at = next[at];
            assert_eq!(at == 0, step == LINES, "after {step} steps");
        }
    }
}
