//! Post-copy of all memory of a program that changes all of it all the time.

use crate::lab::{Farm, until};
use armento_migrate::phase::Failpoint;
use std::time::Duration;

/// Strings that are written at random, grow (realloc, which moves big ones with mremap) and are freed, and children
/// that read all of them. All of it follows from one seed. The pages of one string are reported too.
const PROGRAM: &str = r#"$| = 1; $r = 12345; sub dice { $r = ($r * 1103515245 + 12345) % 2147483648; int($r / 65536) % $_[0] }
 for $i (0..99) { $m[$i] = chr(65 + $i % 26) x 200000 }
 for $k (1..60) {
  for (1..4000) { substr($m[dice(100)], dice(30000) * 6, 1) = chr(97 + dice(26)) }
  $m[dice(100)] .= "g" x 150000; $m[dice(100)] = "n" x 200000;
  if ($k % 12 == 0) { if ($c = fork) { waitpid $c, 0 } else { print "child $k ", unpack("%32C*", join "", @m), "\n"; exit 0 } }
  $v = "\0" x 40; $at = unpack("J", pack("p", $m[0])); syscall(27, ($at + 4095) & ~4095, 40 * 4096, $v);
  print "$k ", unpack("%32C*", join "", @m), " ", unpack("%32C*", $v & ("\1" x 40)), "\n"; select undef, undef, undef, 0.04 }"#;

/// Restarts daemons so that their hosts send all memory after the flip.
fn all_later(farm: &Farm) {
    for node in ["n2", "n3"] {
        farm.sh(node, "pkill -f '[a]rmento node'");
        farm.daemon_behind(node, "env ARMENTO_POSTCOPY=1");
    }
}

fn start(farm: &Farm) {
    let run = "rm -f /tmp/end; (export ARMENTO_POSTCOPY=1 ARMENTO_FAULTS=/tmp/faults; \
               sh -c 'echo $$ > /tmp/pid; exec \"$0\" \"$@\"' armento run --stay perl -e";
    farm.sh(
        "n1",
        &format!("{run} '{PROGRAM}'; echo $? > /tmp/end) >/tmp/out 2>/tmp/says &"),
    );
    until("its first lines", || {
        let lines = "test $(wc -l < /tmp/out) -ge 3";
        farm.run("n1", lines).status.success()
    });
}

fn ended(farm: &Farm) -> bool {
    farm.run("n1", "test -s /tmp/end").status.success()
}

pub fn nothing_is_lost(farm: &Farm) {
    all_later(farm);
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    start(farm);
    let mut moves = 0;
    while !ended(farm) {
        for to in ["n2", "n3", "n2", "home"] {
            let order = format!("armento migrate $(cat /tmp/pid) {to}");
            moves += usize::from(farm.run("n1", &order).status.success());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(moves >= 4, "{moves} moves");
    assert_eq!(
        farm.sh("n1", "cat /tmp/out /tmp/says /tmp/end"),
        native + "0\n"
    );
}

/// The source that still holds pages is killed: the program cannot go on, and that is reported.
pub fn a_source_dies(farm: &Farm) {
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    for (before, to, source) in [("", "n2", "n1"), ("n2", "n3", "n2")] {
        start(farm);
        if !before.is_empty() {
            farm.sh("n1", &format!("armento migrate $(cat /tmp/pid) {before}"));
        }
        let fault = Failpoint::SourceSweeping.name();
        farm.sh(
            source,
            &format!("echo kill > /tmp/faults/{fault}; chmod 666 /tmp/faults/*"),
        );
        farm.run("n1", &format!("armento migrate $(cat /tmp/pid) {to}"));
        until("its end", || ended(farm));
        assert_eq!(farm.sh("n1", "cat /tmp/end"), "137\n", "{source}");
        assert!(
            native.starts_with(&farm.sh("n1", "cat /tmp/out")),
            "{source}"
        );
        until("the end of all its bodies", || {
            let gone = |node| !farm.run(node, "pgrep '^perl$'").status.success();
            ["n1", "n2", "n3"].into_iter().all(gone)
        });
    }
}
