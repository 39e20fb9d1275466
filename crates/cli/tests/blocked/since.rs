//! A wait with a limit that begins at home, untraced, ends when it would have ended natively.

use super::root;
use crate::lab::{Farm, until};
use std::fs;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::Duration;

/// The limit of the wait, how much of it passes at home before the first move, and how much later it may end: half of
/// that time, or the wait was restarted with its full limit. Milliseconds.
const LIMIT: u64 = 5000;
const AT_HOME: u64 = 3000;
const LATE: u64 = AT_HOME / 2;
/// Sizes below and above the minimum for a pre-copy.
const MIB: [u32; 2] = [1, 16];
const WAYS: [&str; 3] = ["n2", "n2 n3", "n2 home n3"];

pub fn waits_begun_at_home_keep_their_limit(farm: &Farm) {
    let dir = root(farm, "n1").join("tmp");
    fs::write(dir.join("since.c"), include_str!("since.c")).expect("a source");
    farm.sh("n1", "gcc -O1 -o /tmp/since /tmp/since.c");
    if !Path::new("/proc/self/sched").exists() {
        println!(
            "skipped: this kernel does not show how long a thread sleeps (CONFIG_SCHED_DEBUG)"
        );
        return;
    }
    scope(|s| {
        for (mib, way) in MIB.iter().flat_map(|m| WAYS.map(|w| (m, w))) {
            s.spawn(move || one(farm, *mib, way));
        }
    });
}

fn one(farm: &Farm, mib: u32, way: &str) {
    let out = format!("/tmp/since-{mib}-{}", way.replace(' ', "-"));
    let start = format!("armento run --stay /tmp/since {LIMIT} {mib} >{out} 2>&1 & echo $!");
    let pid = farm.sh("n1", &start).trim().to_owned();
    sleep(Duration::from_millis(AT_HOME));
    let go = format!("for n in {way}; do armento migrate {pid} $n >/dev/null || exit 1; done");
    farm.sh("n1", &go);
    until("its end", || {
        !farm.run("n1", &format!("kill -0 {pid}")).status.success()
    });
    let said = farm.sh("n1", &format!("cat {out}"));
    let (n, ms) = said.trim().split_once(' ').expect("two numbers");
    let ms: u64 = ms.parse().expect("milliseconds");
    assert_eq!(n, "0", "{mib} MiB, {way}");
    assert!(
        (LIMIT..LIMIT + LATE).contains(&ms),
        "{mib} MiB, {way}: {ms} ms"
    );
}
