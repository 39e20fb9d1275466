//! Until when the threads of processes at home wait by FUTEX_WAIT with a timeout (`migrate/src/image/futex_wait.rs`).
//!
//! From: `keeper/src/moves/prepare.rs` and `keeper/src/moves/freeze.rs`, whose stops interrupt them.
//! Next: `keeper/src/moves/restore_threads.rs`, where they are begun again.

use super::wait_deadlines::Asleep;
use armento_migrate::image::{ThreadState, futex_wait};
use armento_migrate::stop_threads::Halted;
use armento_model::Tid;
use armento_tracee::sleep_time::Last;
use armento_tracee::{sys, trace};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// By thread: home's CLOCK_MONOTONIC, nanoseconds. Bounded by what still waits: what is over is forgotten with every new one.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct FutexWaits(HashMap<Tid, u64>);

fn now() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

impl FutexWaits {
    pub fn insert(&mut self, tid: Tid, until: u64) {
        let now = now();
        self.0.retain(|_, until| *until > now);
        self.0.insert(tid, until);
    }

    /// Threads have been stopped: those that began such a call since the last stop. `asleep`: those that were seen in
    /// one right before. Where it cannot be told how long one had slept (another processor woke it), it waits anew.
    pub fn stopped(&mut self, asleep: &[Asleep], halted: &[Halted]) {
        for h in halted {
            let seen = asleep.iter().find(|a| a.call.tid == h.tid());
            let seen = seen.filter(|a| futex_wait::is_timed(a.call.nr, &a.call.args));
            if seen.is_none() && !self.0.contains_key(&h.tid()) {
                continue;
            }
            let Ok(regs) = trace::regs(h.tid()) else {
                continue;
            };
            if !futex_wait::interrupted(&regs) {
                continue;
            }
            self.0.remove(&h.tid());
            let same = seen.filter(|a| a.call.args[0] == regs.rdi && a.call.args[3] == regs.r10);
            let slept = same.and_then(|a| a.last.until(Last::of(h.tid())?));
            let asked = futex_wait::asked(h.tid(), regs.r10);
            if let (Some(slept), Some(asked)) = (slept, asked) {
                // One of centuries may as well begin anew.
                let left = u64::try_from(asked.saturating_sub(slept).as_nanos());
                if let Some(until) = left.ok().and_then(|left| now().checked_add(left)) {
                    self.insert(h.tid(), until);
                }
            }
        }
    }

    /// It leaves: until when the call lasts that it is about to begin again.
    pub fn leaves(&self, s: &ThreadState) -> Option<u64> {
        let until = self.0.get(&s.tid.at_home()).copied();
        until.filter(|_| futex_wait::travels(s))
    }
}
