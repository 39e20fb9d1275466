//! Files of home, as an away program sees them.

use super::{Farm, USER, until};
use serde_json::Value;

/// Looks five times at 300 files, reads each, and then looks at the first until it has changed.
const PROGRAM: &str = r#"
import os, sys
d = "/tmp/quiet"
names = sorted(os.listdir(d))
total = 0
for _ in range(5):
    for n in names:
        total += os.lstat(d + "/" + n).st_size
for n in names:
    fd = os.open(d + "/" + n, os.O_RDONLY)
    total += len(os.read(fd, 100)) + len(os.read(fd, 100))
    os.close(fd)
print(total, flush=True)
first = d + "/f100"
while os.lstat(first).st_size == 2:
    pass
print(os.lstat(first).st_size, open(first).read(), flush=True)
"#;

/// KERNEL: /proc/sys/fs/lease-break-time: who waits for one that does not answer waits for 45 s.
const WRITE: &str = "timeout 20 sh -c 'echo more >> /tmp/quiet/f100'";

pub fn of_root_are_known_to_programs_of_users(farm: &Farm) {
    farm.sh(
        "n1",
        "mkdir -p /tmp/quiet; cd /tmp/quiet; for i in $(seq 100 399); do echo x > f$i; done; chmod -R a+rX .; touch -d yesterday *; sleep 0.1; cat * > /dev/null",
    );
    let run = format!(
        "ARMENTO_SUMMARY=/tmp/counts {USER} armento run --on n2 python3 -c '{PROGRAM}' > /tmp/said 2>&1 & echo $!"
    );
    farm.sh("n1", "touch /tmp/counts; chmod a+w /tmp/counts");
    farm.sh("n1", &run);
    let says = |words: &str| farm.sh("n1", "cat /tmp/said").contains(words);
    until("its sum", || says("3600\n"));
    // It waits for the change without a word to home; home's holder of the lease lets the writer go on at once.
    farm.sh("n1", WRITE);
    until("the change", || says("7 x\nmore\n"));
    let holders = farm.sh("n1", "pgrep -c -f '[a]rmento lease-holder$'");
    assert_eq!(holders.trim(), "1");
    let counts = || farm.sh("n1", "cat /tmp/counts");
    until("its counts", || !counts().is_empty());
    let told: Value = serde_json::from_str(&counts()).expect("a summary");
    let waited = told["forwarded"].as_u64().expect("a number");
    // 1,500 looks and 600 reads; each open waits.
    assert!(waited < 600, "{waited} calls waited for home");
}
