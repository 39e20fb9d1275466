//! A hostile member of the farm, and a program that runs on the node that it attacks.

use crate::lab::{Farm, is_long, until};
use serde_json::Value;

const PEER: &str = include_str!("peer.py");
/// Computes, prints and waits until /tmp/stop is there, or for as many rounds as its argument.
const PROGRAM: &str = r#"$|=1; for ($i=1; @ARGV ? $i<=$ARGV[0] : !-e "/tmp/stop"; $i++) { $x=0; for $j (1..60000) { $x+=$j%7 } print "$i $x\n"; select undef, undef, undef, 0.05 }"#;
const SECONDS: u32 = 8;
const SECONDS_LONG: u32 = 60;
/// Limit on the growth of n2's daemon and host, KiB: their buffers for requests in progress.
const GROWN_MAX_KIB: u64 = 16 << 10;

/// Pid, open descriptors and KiB of each Armento process on n2.
fn standing(farm: &Farm) -> Vec<[u64; 3]> {
    let script = "for p in $(pgrep -f 'armento (node|host)$'); do \
                  echo $p $(ls /proc/$p/fd | wc -l) $(awk '/^RssAnon/ { print $2 }' /proc/$p/status); done";
    let words = |line: &str| -> Option<[u64; 3]> {
        let all: Option<Vec<u64>> = line.split(' ').map(|w| w.parse().ok()).collect();
        all?.try_into().ok()
    };
    let said = farm.sh("n2", script);
    let mut all: Vec<[u64; 3]> = said.lines().filter_map(words).collect();
    all.sort_unstable();
    all
}

pub fn all_attacks_fail(farm: &Farm) {
    let run = format!(
        "(sh -c 'echo $$ > /tmp/pid; exec \"$0\" \"$@\"' armento run --on n2 perl -e '{PROGRAM}'; echo $? > /tmp/end) \
         > /tmp/out 2> /tmp/says &"
    );
    farm.sh("n1", &run);
    let door =
        "sed -n 's/.*\"addr\": *\"[^\"]*:\\([0-9]*\\)\".*/\\1/p' /var/lib/armento/hosts/*.json";
    until("a host on n2", || {
        !farm
            .sh("n2", &format!("{door} 2>/dev/null; true"))
            .trim()
            .is_empty()
    });
    let door = farm.sh("n2", door);
    let addr = farm.sh("n2", "hostname -I");
    let addr = addr.split_whitespace().next().expect("n2 has an address");
    // A host has fewer descriptors before its guest has arrived.
    until("the program on n2", || {
        farm.run("n1", "test -s /tmp/out").status.success()
    });
    let before = standing(farm);
    assert!(before.len() >= 2, "daemon and host: {before:?}");
    let seconds = if is_long() { SECONDS_LONG } else { SECONDS };
    farm.sh("n3", &format!("cat > /tmp/peer.py <<'EOF'\n{PEER}EOF"));
    let said = farm.sh(
        "n3",
        &format!("python3 /tmp/peer.py {addr} {} {seconds}", door.trim()),
    );
    println!("{said}");
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(said["got"], Value::Array(Vec::new()));
    assert!(
        said["done"]["lines of a member"].as_u64() > Some(0),
        "{said}"
    );
    assert!(said["heard"].as_u64() > Some(0), "{said}");
    // The same processes still run and serve: the program returns home and is moved away again.
    for to in ["home", "n2"] {
        farm.sh("n1", &format!("armento migrate $(cat /tmp/pid) {to}"));
    }
    let same = |after: &[[u64; 3]]| before.iter().all(|b| after.iter().any(|a| a[0] == b[0]));
    until("the end of the peer's connections", || {
        let after = standing(farm);
        let of = |pid: u64| after.iter().find(|a| a[0] == pid);
        let calm = |b: &[u64; 3]| {
            of(b[0]).is_some_and(|a| a[1] <= b[1] + 4 && a[2] <= b[2] + GROWN_MAX_KIB)
        };
        assert!(same(&after), "{before:?} became {after:?}");
        before.iter().all(calm)
    });
    farm.sh("n1", "touch /tmp/stop");
    until("its end", || {
        farm.run("n1", "test -s /tmp/end").status.success()
    });
    let out = farm.sh("n1", "cat /tmp/out /tmp/says /tmp/end");
    let rounds = out.lines().count() - 1;
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}' {rounds}"));
    assert_eq!(out, native + "0\n");
    let panics = "grep -l panicked /tmp/node.log /var/lib/armento/hosts/*.log; true";
    assert_eq!(farm.sh("n2", panics), "");
    assert!(farm.sh("n1", "armento nodes").contains("n3"));
}
