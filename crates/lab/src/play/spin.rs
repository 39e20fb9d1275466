//! A program that computes, so much and no more.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One look at the processor's speed.
const LOOK: Duration = Duration::from_millis(50);
/// The best counts: all else that happens on a machine only slows it down.
const LOOKS: usize = 9;
/// Its memory is written so often in its life.
const PARTS: u64 = 16;
/// Rounds between two looks at the clock.
const CHUNK: u64 = 200_000;

/// A page of memory.
const PAGE: usize = 4096;

/// `lab-init spin NUMBER ROUNDS MIB`: takes so much memory, computes, and says its number and when it ends, nanoseconds
/// of Unix time.
pub fn main(number: &str, rounds: &str, mib: &str) -> anyhow::Result<i32> {
    let mut held = vec![0u8; mib.parse::<usize>()? << 20];
    // No two pages alike.
    let mut fill = |round: u64| {
        let seed = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (i, page) in held.chunks_mut(PAGE).enumerate() {
            page[..8].copy_from_slice(&(seed ^ i as u64).to_ne_bytes());
        }
        black_box(&held);
    };
    let rounds: u64 = rounds.parse()?;
    for part in 0..PARTS {
        fill(part);
        spin(rounds / PARTS);
    }
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
