//! Links that are cut: effects of programs are complete and happen once, or the death of the program is reported.

mod halves;
mod lab;
mod pauses;

use lab::{Farm, until};
use std::process::Output;
use std::time::Duration;

/// Effects that show when one is lost or repeated: lines of a file, bytes through a pipe, forks; and computing. It
/// begins when /tmp/go is there, and ends early, after whole thousands, when /tmp/enough is.
const PROGRAM: &str = r#"until (-e "/tmp/go") { select(undef, undef, undef, 0.05) } use IO::Handle; open(F, ">>", $ARGV[0]); F->autoflush(1); pipe(R, W);
 for ($i = 1; $i <= $ARGV[1]; $i++) { syswrite(W, "$i\n"); sysread(R, $b, 100); print F "$i $b";
 if ($i % 1000 == 0) { $x = 0; for ($j = 0; $j < 100000; $j++) { $x += $j % 7 } print F "$x\n";
 if (!fork) { print F "child of $i\n"; exit 3 } wait; print F "$?\n"; last if -e "/tmp/enough" } } print F "end\n""#;

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// Runs the program on n2 with `before` done first in the same shell; returns the output that it wrote and the output
/// of a native run.
fn run(farm: &Farm, before: &str, turns: u32) -> (Output, String, String) {
    let native =
        format!("rm -f /tmp/n; touch /tmp/go; perl -e '{PROGRAM}' /tmp/n {turns}; cat /tmp/n");
    let native = farm.sh("n1", &native);
    let away = format!(
        "rm -f /tmp/o; {before} armento run --on n2 perl -e '{PROGRAM}' /tmp/o {turns}; e=$?; wait; exit $e"
    );
    let out = farm.run("n1", &away);
    let wrote = farm.sh("n1", "cat /tmp/o");
    (out, wrote, native)
}

/// Takes n1's link down for this long, starting a second after the command.
fn cut(seconds: u32) -> String {
    format!(
        "(sleep 1; ip link set eth0 down; sleep {seconds}; ip link set eth0 up) >/dev/null 2>&1 &"
    )
}

fn no_body(farm: &Farm) {
    until("the end of the body", || {
        farm.sh("n2", "pgrep -c '^perl$' || true").trim() == "0"
    });
}

/// Longest wait until links have been cut often enough.
const CUT_MAX: Duration = Duration::from_secs(300);

/// With the short limits of these farms: frozen after 1.5 s, dead after 4.
#[test]
fn outage_within_limit_is_survived_and_longer_is_fatal() {
    let Some(farm) = Farm::up("out", None) else {
        return;
    };
    let look = "(until armento ps | grep -q frozen; do sleep 0.1; done; armento why $(pgrep -o '^perl$') > /tmp/why) &";
    let (out, wrote, native) = run(&farm, &format!("{} {look}", cut(3)), 30_000);
    assert!(out.status.success(), "{out:?}");
    assert!(wrote == native, "{} of {} bytes", wrote.len(), native.len());
    let why = farm.sh("n1", "cat /tmp/why");
    assert!(why.contains("link-lost") && why.contains("frozen"), "{why}");
    no_body(&farm);
    let (out, wrote, native) = run(&farm, &cut(9), 60_000);
    assert_eq!(out.status.code(), Some(137), "{out:?}");
    assert!(native.starts_with(&wrote));
    let said = text(&out.stderr);
    assert_eq!(said.matches("armento: ").count(), 1, "{said}");
    assert!(said.contains("n2") && said.contains("lost"), "{said}");
    no_body(&farm);
    // The farm still works.
    let again = || farm.run("n1", "armento run --on n2 true").status.success();
    until("another program there", again);
}

/// With the default limits: frozen after 10 s, dead after 30.
#[test]
fn tree_frozen_by_an_outage_resumes() {
    if !lab::long() {
        return;
    }
    let Some(farm) = Farm::up("frozen", None) else {
        return;
    };
    for node in ["n1", "n2"] {
        farm.sh(node, "sed -i 's/^freeze_ms.*//; s/^dead_ms.*//' /etc/armento/config.toml; pkill -f '[a]rmento node'");
        farm.daemon(node);
    }
    let there = || farm.run("n1", "armento run --on n2 true").status.success();
    until("a program there", there);
    let (out, wrote, native) = run(&farm, &cut(15), 60_000);
    assert!(out.status.success(), "{out:?}");
    assert!(wrote == native, "{} of {} bytes", wrote.len(), native.len());
    no_body(&farm);
}

/// A proxy at each node resets connections at random bytes about every tenth of a second. Connections to hosts go
/// through it: those of the keeper on n1 and, while the program moves from node to node, those of the hosts of n2 and
/// n3.
#[test]
fn disconnects_during_moves_lose_nothing() {
    let Some(farm) = Farm::up("again", None) else {
        return;
    };
    const VIA: &str = "ARMENTO_DIAL_VIA=127.0.0.1:7000";
    for (seed, node) in [(1, "n1"), (2, "n2"), (3, "n3")] {
        let proxy = format!(
            "setsid armento lab proxy --listen 127.0.0.1:7000 --seed {seed} --faults reset,close,stall,delay,repeat \
             --bytes 1000..12000000 --every 20..900 --pause 1..60 >/tmp/proxy.log 2>&1 </dev/null &"
        );
        farm.sh(node, &proxy);
        until("a cable", || {
            farm.run(node, "test -s /tmp/proxy.log").status.success()
        });
    }
    for node in ["n2", "n3"] {
        farm.sh(node, "pkill -f '[a]rmento node'");
        farm.daemon_behind(node, &format!("env {VIA}"));
    }
    // Until the program ends.
    let moves = "(while p=$(pgrep -o '^perl$'); do for n in n3 n2 n3 n2 home n2; do \
                 armento migrate $p $n >/dev/null 2>&1 && echo $n >> /tmp/moved; done; done) >/dev/null 2>&1 &";
    let start = format!(
        "touch /tmp/go; (export {VIA}; armento run --on n2 perl -e '{PROGRAM}' /tmp/o 100000000 2>/tmp/says; \
         echo $? > /tmp/end) >/dev/null 2>&1 & until pgrep '^perl$'; do sleep 0.05; done; {moves}"
    );
    farm.sh("n1", &start);
    let (cuts, hosts_cuts, moves) = if lab::is_long() {
        (150, 60, 600)
    } else {
        (10, 5, 40)
    };
    let count = |node: &str, what: &str, file: &str| {
        let said = farm.sh(
            node,
            &format!("grep -c '{what}' {file} 2>/dev/null || true"),
        );
        said.trim().parse::<u32>().unwrap_or(0)
    };
    let done = || {
        let cut = |node| count(node, "Reset\\|Close", "/tmp/proxy.log");
        [
            cut("n1"),
            cut("n2") + cut("n3"),
            count("n1", "n", "/tmp/moved"),
        ]
    };
    let enough = || {
        let [home, hosts, moved] = done();
        let over = farm.run("n1", "test -s /tmp/end").status.success();
        over || home >= cuts && hosts >= hosts_cuts && moved >= moves
    };
    assert!(lab::within(CUT_MAX, enough), "{:?}", done());
    println!("connections of home cut, of hosts cut, moves: {:?}", done());
    farm.sh("n1", "touch /tmp/enough");
    until("its end", || {
        farm.run("n1", "test -s /tmp/end").status.success()
    });
    let said = farm.sh("n1", "cat /tmp/end /tmp/says");
    assert_eq!(said, "0\n");
    // A native run with as many turns.
    let native = "n=$(tail -n 3 /tmp/o | sed -n 's/ *child of //p'); rm /tmp/enough; perl -e 'PROGRAM' /tmp/n $n; cmp /tmp/n /tmp/o";
    farm.sh("n1", &native.replace("PROGRAM", PROGRAM));
    no_body(&farm);
}

#[test]
fn both_halves_of_a_partition_go_on_and_nothing_runs_twice() {
    if let Some(farm) = Farm::of(4, "halves", None, 1.0) {
        halves::both_go_on_and_nothing_runs_twice(&farm);
    }
}
