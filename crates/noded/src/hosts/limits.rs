//! Limits as the files of both versions of control groups have them.

use crate::config::Limits;
use armento_sense::Controller;

/// KERNEL: cgroup-v1/cpu: shares of a group with the weight 100 of version 2.
const SHARES_100: u64 = 1024;
/// KERNEL: cgroup-v1/cpu: two and no less.
const SHARES_MIN: u64 = 2;
/// KERNEL: the default of both versions, microseconds.
const PERIOD_US: u64 = 100_000;

/// Files of a group of that controller, and what is written there.
pub fn files(limits: &Limits, c: &Controller) -> Vec<(&'static str, String)> {
    let mem = limits.mem_max_kib.map(|kib| kib.saturating_mul(1024));
    let quota_us = |percent: u64| percent.saturating_mul(PERIOD_US / 100);
    let shares = |w: u64| (w * SHARES_100 / 100).max(SHARES_MIN);
    let set: [Option<(&str, String)>; 2] = match (c.name, c.v2) {
        ("memory", true) => [mem.map(|b| ("memory.max", b.to_string())), None],
        ("memory", false) => [mem.map(|b| ("memory.limit_in_bytes", b.to_string())), None],
        ("pids", _) => [limits.procs_max.map(|n| ("pids.max", n.to_string())), None],
        (_, true) => [
            limits.cpu_weight.map(|w| ("cpu.weight", w.to_string())),
            limits
                .cpu_max_percent
                .map(|p| ("cpu.max", format!("{} {PERIOD_US}", quota_us(p)))),
        ],
        (_, false) => [
            limits
                .cpu_weight
                .map(|w| ("cpu.shares", shares(w).to_string())),
            limits
                .cpu_max_percent
                .map(|p| ("cpu.cfs_quota_us", quota_us(p).to_string())),
        ],
    };
    set.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn both_versions_have_their_own_files() {
        let limits = Limits {
            mem_max_kib: Some(1024),
            cpu_weight: Some(50),
            cpu_max_percent: Some(150),
            procs_max: Some(64),
        };
        let check = |name, v2, want: &[(&str, &str)]| {
            let dir = PathBuf::new();
            let files = super::files(&limits, &Controller { name, v2, dir });
            let files: Vec<(&str, &str)> = files.iter().map(|(f, v)| (*f, v.as_str())).collect();
            assert_eq!(files, want);
        };
        check("memory", true, &[("memory.max", "1048576")]);
        check("memory", false, &[("memory.limit_in_bytes", "1048576")]);
        let max = ("cpu.max", "150000 100000");
        check("cpu", true, &[("cpu.weight", "50"), max]);
        let quota = ("cpu.cfs_quota_us", "150000");
        check("cpu", false, &[("cpu.shares", "512"), quota]);
        check("pids", true, &[("pids.max", "64")]);
        check("pids", false, &[("pids.max", "64")]);
        let none = Controller {
            name: "cpu",
            v2: true,
            dir: PathBuf::new(),
        };
        assert!(files(&Limits::default(), &none).is_empty());
    }
}
