//! Time for which quotas throttled processes of this group.

use crate::cgroup::Group;
use crate::sys;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Groups further up are not read.
const LEVELS_MAX: usize = 16;
/// The file has a dozen lines.
const TEXT_MAX: usize = 1024;

/// Throttling counters of the groups above this process. Opened while `/sys` is visible: later it may be hidden.
#[derive(Debug, Default)]
pub struct Withheld {
    /// The files, and the value of each at the last reading.
    accounts: Vec<(File, u64)>,
}

impl Withheld {
    /// Counts from now on.
    pub fn open() -> Withheld {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let group = Group::find(
            &read("/proc/self/cgroup"),
            &read("/proc/self/mountinfo"),
            "cpu",
        );
        let levels = group.iter().flat_map(Group::levels).take(LEVELS_MAX);
        let accounts = levels.filter_map(|dir| File::open(format!("{dir}/cpu.stat")).ok());
        let mut it = Withheld {
            accounts: accounts.map(|file| (file, 0)).collect(),
        };
        it.since_last();
        it
    }

    /// How long quotas kept usable processors from runnable processes. The kernel adds up processors: where only some
    /// were throttled this is the mean of all. Of nested groups the one that withheld most counts.
    pub fn since_last(&mut self) -> Duration {
        let past = self.accounts.iter_mut().map(|(file, before_ns)| {
            let now_ns = account(file).unwrap_or(0);
            now_ns.saturating_sub(std::mem::replace(before_ns, now_ns))
        });
        let past_ns = past.max().unwrap_or(0);
        let processors = sys::affinity_count().unwrap_or(1).max(1);
        Duration::from_nanos(past_ns / u64::from(processors))
    }
}

fn account(file: &File) -> Option<u64> {
    let mut text = [0; TEXT_MAX];
    let len = file.read_at(&mut text, 0).ok()?;
    withheld_ns(std::str::from_utf8(&text[..len]).ok()?)
}

/// KERNEL: Documentation/scheduler/sched-bwc.rst: `throttled_time`, nanoseconds (version 1), `throttled_usec` (2).
fn withheld_ns(text: &str) -> Option<u64> {
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", ns) => ns.parse().ok(),
        ("throttled_usec", us) => us.parse::<u64>().ok()?.checked_mul(1000),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_parsed() {
        let check = |text, want| assert_eq!(withheld_ns(text), want, "{text}");
        check(
            "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n",
            Some(5000),
        );
        check(
            "usage_usec 7\nnr_throttled 4\nthrottled_usec 5\n",
            Some(5000),
        );
        check("throttled_usec 18446744073709551615\n", None);
        check("usage_usec 7\nthrottled_usec x\n", None);
        check("throttled_time\n", None);
        check("", None);
    }

    #[test]
    fn each_reading_counts_from_the_last() {
        let path = std::env::temp_dir().join(format!("armento-withheld-{}", std::process::id()));
        let write = |ms: u64| fs::write(&path, format!("throttled_time {}\n", ms * 1_000_000));
        write(500).expect("a file");
        let mut it = Withheld {
            accounts: vec![(File::open(&path).expect("it is there"), 0)],
        };
        let processors = sys::affinity_count().unwrap_or(1);
        it.since_last();
        assert_eq!(it.since_last(), Duration::ZERO);
        write(900).expect("a file");
        assert_eq!(it.since_last() * processors, Duration::from_millis(400));
        // Another account in its place.
        write(100).expect("a file");
        assert_eq!(it.since_last(), Duration::ZERO);
        fs::remove_file(&path).expect("ours");
        assert_eq!(Withheld::default().since_last(), Duration::ZERO);
    }
}
