//! Whether a body that was lost ran on: the processor time of all bodies of the campaign, sampled from outside the nodes.
//!
//! KERNEL: proc(5): `NSpid` has the numbers of a process from the outermost pid namespace to its own. A body is three deep (this
//! machine, the node, the guests of one home), and its last number is that of its process at home.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::sys;

const EVERY: Duration = Duration::from_millis(100);
const DEEP: usize = 3;
/// Less than this is what its end costs, ms.
const NOTHING_MS: f64 = 3.0;
/// Samples that are kept of one body.
const SPANS_MAX: usize = 600;
/// Ticks of `starttime`. KERNEL: USER_HZ is 100 on x86-64.
const TICK_MS: f64 = 10.0;

struct Body {
    /// Its number here.
    here: u32,
    /// Its number at home.
    pid: u32,
    began_ms: f64,
    /// Processor time, and when it was read.
    ran_ms: f64,
    at_ms: f64,
    /// In which spans it has run.
    spans: Vec<(f64, f64)>,
}

#[derive(Default)]
pub struct Bodies(Mutex<HashMap<(u32, u64), Body>>);

impl Bodies {
    /// Samples until `over`.
    pub fn watch(&self, over: &AtomicBool) {
        while !over.load(Ordering::Acquire) {
            self.sample();
            std::thread::sleep(EVERY);
        }
    }

    fn sample(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let here = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let Some(here) = here else { continue };
            let Some(seen) = look(here) else { continue };
            let body = all.entry((here, seen.start)).or_insert(Body {
                here,
                pid: seen.pid,
                began_ms: seen.start as f64 * TICK_MS,
                ran_ms: seen.ran_ms,
                at_ms: seen.at_ms,
                spans: Vec::new(),
            });
            if seen.ran_ms - body.ran_ms > NOTHING_MS {
                if body.spans.len() == SPANS_MAX {
                    body.spans.remove(0);
                }
                body.spans.push((body.at_ms, seen.at_ms));
                body.ran_ms = seen.ran_ms;
            }
            body.at_ms = seen.at_ms;
        }
    }

    /// A body of process `pid` that was there when its node was declared lost, and has run since another one runs.
    pub fn ran_on(&self, pid: u32, lost_ms: f64, thawed_ms: f64) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut old = all
            .values()
            .filter(|b| b.pid == pid && b.began_ms < lost_ms - TICK_MS);
        old.find_map(|b| {
            let span = b.spans.iter().find(|(from, _)| *from > thawed_ms)?;
            Some(format!(
                "its lost body (process {} of this machine) ran from {:.0} to {:.0} ms, another one since {thawed_ms:.0} ms",
                b.here, span.0, span.1
            ))
        })
    }

    /// Forgets the bodies of a process that has ended.
    pub fn forget(&self, pid: u32) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, b| b.pid != pid);
    }
}

struct Seen {
    pid: u32,
    start: u64,
    ran_ms: f64,
    at_ms: f64,
}

/// `None`: it is no body, or has ended.
fn look(here: u32) -> Option<Seen> {
    let status = fs::read_to_string(format!("/proc/{here}/status")).ok()?;
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    let numbers: Vec<u32> = numbers
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    let pid = *numbers.last().filter(|_| numbers.len() == DEEP)?;
    let stat = fs::read_to_string(format!("/proc/{here}/stat")).ok()?;
    // Field 22 is the twentieth behind the name.
    let start = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let ran = fs::read_to_string(format!("/proc/{here}/schedstat")).ok()?;
    let ran: u64 = ran.split(' ').next()?.parse().ok()?;
    Some(Seen {
        pid,
        start,
        ran_ms: ran as f64 / 1e6,
        at_ms: sys::monotonic_ms(),
    })
}
