//! How long a thread has slept, by the clock of its processor.
//!
//! KERNEL: /proc/PID/sched (CONFIG_SCHED_DEBUG) shows when a thread was last accounted (`se.exec_start`): for a
//! sleeping thread when it left its processor, for one that was woken and stopped the time of that. Each processor has
//! a clock of its own, which stands still in interrupts and while the hypervisor runs something else: only two values
//! of one processor can be compared.

use crate::{status, text};
use std::time::Duration;

/// Index of field 39 of proc_pid_stat(5), the processor, in [`status::thread_stat_fields`].
const PROCESSOR: usize = 36;

/// When a thread last ran on its processor.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    cpu: i64,
    ms: f64,
}

impl Last {
    /// For a thread that sleeps or is stopped. `None`: this kernel does not report it.
    pub fn of(tid: i32) -> Option<Last> {
        let told = text::read(format!("/proc/{tid}/task/{tid}/sched")).ok()?;
        let line = told.lines().find(|l| l.starts_with("se.exec_start"))?;
        let ms = line.split(':').nth(1)?.trim().parse().ok()?;
        let cpu = *status::thread_stat_fields(tid).ok()?.get(PROCESSOR)?;
        Some(Last { cpu, ms })
    }

    /// The time from this to `later`. `None`: on another processor.
    pub fn until(self, later: Last) -> Option<Duration> {
        let ms = later.ms - self.ms;
        let same = self.cpu == later.cpu && ms >= 0.0;
        same.then(|| Duration::try_from_secs_f64(ms / 1e3).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_time_is_measured() {
        let last = |cpu, ms| Last { cpu, ms };
        let slept = last(1, 1000.25).until(last(1, 3000.5));
        assert_eq!(slept, Some(Duration::from_micros(2_000_250)));
        assert_eq!(last(1, 1000.0).until(last(0, 3000.0)), None);
        assert_eq!(last(1, 1000.0).until(last(1, 900.0)), None);

        let (tx, rx) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let me = std::fs::read_link("/proc/thread-self").expect("/proc");
            let tid = me.file_name().and_then(|n| n.to_str()?.parse().ok());
            let _ = tx.send(tid.expect("a number"));
            std::thread::park();
        });
        let tid = rx.recv().expect("its number");
        let asleep = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
            stat.is_ok_and(|s| s.contains(") S "))
        };
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while !asleep() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let told = std::path::Path::new("/proc/self/sched").exists();
        let (first, again) = (Last::of(tid), Last::of(tid));
        assert_eq!(first.is_some(), told);
        // It has not run in between.
        if let (Some(first), Some(again)) = (first, again) {
            assert_eq!(first.until(again), Some(Duration::ZERO));
        }
        sleeper.thread().unpark();
        sleeper.join().expect("it ends");
    }
}
