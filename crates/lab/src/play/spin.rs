//! A program that computes, so much and no more.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One look at the processor's speed.
const LOOK: Duration = Duration::from_millis(50);
/// The best counts: all else that happens on a machine only slows it down.
const LOOKS: usize = 9;
/// Rounds between two looks at the clock.
const CHUNK: u64 = 200_000;

/// `lab-init spin NUMBER ROUNDS`: says its number and when it ends, nanoseconds of Unix time.
pub fn main(number: &str, rounds: &str) -> anyhow::Result<i32> {
    spin(rounds.parse()?);
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    // One call: lines of others are not torn.
    std::io::stdout().write_all(format!("{number} {at}\n").as_bytes())?;
    Ok(0)
}

fn spin(rounds: u64) {
    let mut x = 1u64;
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(x);
}

/// Rounds that one processor of this machine, undisturbed, does in a second.
pub fn rounds_per_s() -> f64 {
    let look = || {
        let (begun, mut rounds) = (Instant::now(), 0);
        while begun.elapsed() < LOOK {
            spin(CHUNK);
            rounds += CHUNK;
        }
        rounds as f64 / begun.elapsed().as_secs_f64()
    };
    (0..LOOKS).map(|_| look()).fold(0.0, f64::max)
}
