//! Programs that were let in and try to get out: at what is forwarded, at the filter, at our own code in them.

use crate::USER;
use crate::lab::{Farm, until};
use std::process::Output;

const GUEST: &str = include_str!("escape.c");
/// The node's own server, for whoever would reach it.
const PORT: u16 = 7999;
/// Another user's program there, which must not notice. It ends when home has the file.
const OTHER: &str =
    r#"while (!-e "/tmp/over") { $x += $_ % 7 for 1..100000; $n++ } print $n > 0 && $x > 0;"#;

fn attack(farm: &Farm, way: &str) -> Output {
    // Who holds on to a node is a failure, too.
    let out = farm.run(
        "n1",
        &format!("{USER} timeout -s KILL 90 armento run --on n2 /tmp/escape {way}"),
    );
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("away 1"),
        "{way}: it never was a guest: {out:?}"
    );
    assert!(!text.contains("ESCAPED"), "{way}: {out:?}");
    out
}

/// It got to its end, with this line.
fn ends(farm: &Farm, way: &str, says: &str) {
    let out = attack(farm, way);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains(says) && text.contains("end\n"),
        "{way}: {out:?}"
    );
}

pub fn of_guests(farm: &Farm) {
    let build = "gcc -O1 -pthread -o /tmp/escape -x c - <<'EOF'\n";
    farm.sh("n1", &format!("{build}{GUEST}\nEOF\n"));
    farm.sh("n2", "echo secret > /tmp/canary; chmod 666 /tmp/canary");
    let serve = format!(
        "use IO::Socket::INET; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:{PORT}\"); sleep 600"
    );
    farm.sh(
        "n2",
        &format!("perl -e '{serve}' >/dev/null 2>&1 & echo $! > /tmp/server"),
    );
    farm.sh(
        "n1",
        &format!("armento run --on n2 perl -e '{OTHER}' > /tmp/other 2>&1 &"),
    );
    until("the other guest", || {
        farm.run("n2", "pgrep '^perl$' | wc -l | grep -q 2")
            .status
            .success()
    });

    // What a call says is what home says: the canary and the server are not there.
    ends(farm, &format!("outside /tmp/canary {PORT}"), "open 111");
    ends(farm, "descriptors", "descriptors 0");
    ends(farm, "pointers", "end");
    // Served at home, where it may be done.
    ends(farm, "namespaces", "unshare 0");
    ends(farm, "traces", "traces 0");
    ends(farm, "int80", "int80 1");
    ends(farm, "x32", "x32 -1");
    // Whoever writes over our code, or over what it reads, harms itself at most.
    attack(farm, "code");
    if crate::lab::long() {
        // Races against our calls: they take the machine.
        for way in ["batch", "scratch", "region", "threads"] {
            attack(farm, way);
        }
        // Last: the node is short of memory for a while, and takes nobody.
        let out = attack(farm, "bomb 4096");
        assert!(
            out.status.success() || out.status.code() == Some(137),
            "{out:?}"
        );
    }

    farm.sh("n1", "touch /tmp/over");
    until("the other guest's end", || {
        !farm.run("n1", "pgrep '^perl$'").status.success()
    });
    assert_eq!(farm.sh("n1", "cat /tmp/other"), "1");
    assert_eq!(farm.sh("n2", "cat /tmp/canary"), "secret\n");
    farm.sh("n2", "kill $(cat /tmp/server)");
    until("the end of all guests", || {
        let left = "pgrep '^(escape|armento-guard|armento-zygote)' | wc -l";
        farm.sh("n2", left).trim() == "0"
    });
    farm.sh("n2", "armento nodes");
}
