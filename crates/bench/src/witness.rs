//! Detects standstills of the machine's processors: a virtual one may have fewer than it shows, and then programs stand
//! still with and without Armento.
//!
//! A real-time thread on each processor wakes up every millisecond. When it is late, no program was the cause, but the
//! machine below, or the kernel with interrupts disabled.

use crate::sys;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

/// Nanoseconds: begin and length.
pub type Gap = (u64, u64);

const PERIOD_NS: u64 = 1_000_000;
/// Shorter delays are the kernel's own work.
const LATE_NS: u64 = 1_000_000;
/// Half a minute of nothing but standstills.
const KEPT_MAX: usize = 1 << 14;

pub struct Witness {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Gap>>>,
}

impl Witness {
    /// Fails where real-time threads are not permitted.
    pub fn begin() -> io::Result<Witness> {
        let mut all = Witness {
            over: Arc::default(),
            threads: Vec::new(),
        };
        for cpu in sys::members(&sys::affinity()?) {
            let (over, (ready, is_ready)) = (all.over.clone(), channel());
            all.threads.push(thread::spawn(move || {
                let real = sys::set_affinity(&sys::only(cpu)).and_then(|()| sys::real_time());
                let ok = real.is_ok();
                let _ = ready.send(real);
                if ok { watch(&over) } else { Vec::new() }
            }));
            is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(all)
    }

    /// Standstills of any processor, in order.
    pub fn end(mut self) -> Vec<Gap> {
        self.over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let all = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap_or_default());
        merged(all.collect())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn watch(over: &AtomicBool) -> Vec<Gap> {
    let (mut late, mut next) = (Vec::new(), sys::now_ns() + PERIOD_NS);
    while !over.load(Ordering::Relaxed) && late.len() < KEPT_MAX {
        sys::sleep_until(next);
        let now = sys::now_ns();
        if now.saturating_sub(next) > LATE_NS {
            late.push((next, now - next));
        }
        next = now + PERIOD_NS;
    }
    late
}

fn merged(mut all: Vec<Gap>) -> Vec<Gap> {
    all.sort_unstable();
    let mut one: Vec<Gap> = Vec::new();
    for (at, len) in all {
        match one.last_mut() {
            Some(last) if at <= last.0 + last.1 => last.1 = last.1.max(at + len - last.0),
            _ => one.push((at, len)),
        }
    }
    one
}

/// The part of `gap` outside of `stalls`, which are in order and disjoint.
pub fn outside((at, len): Gap, stalls: &[Gap]) -> u64 {
    let both = |s: &Gap| (at + len).min(s.0 + s.1).saturating_sub(at.max(s.0));
    len - stalls.iter().map(both).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once() {
        let stalls = merged(vec![(30, 5), (10, 10), (15, 10)]);
        assert_eq!(stalls, [(10, 15), (30, 5)]);
        assert_eq!(outside((0, 100), &stalls), 80);
        assert_eq!(outside((12, 3), &stalls), 0);
        assert_eq!(outside((20, 12), &stalls), 5);
        assert_eq!(outside((40, 7), &stalls), 7);
    }
}
