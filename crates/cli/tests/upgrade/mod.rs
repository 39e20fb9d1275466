//! Daemons are stopped and started again with the next version of the control protocol, one by one and back, while a
//! program moves about. A daemon of that version adds fields to every message and file, and sends requests unknown to
//! this one.

use super::restarts::{self, Load, NODES, kill};
use super::{Farm, fails_with, text, until};
use armento_model::ENGINE_VERSION;
use std::time::{Duration, Instant};

/// Command prefix for a program of that version.
fn of_version(n: u32) -> String {
    format!("env ARMENTO_CONTROL_VERSION={n}")
}

/// As `systemctl stop` does.
fn stop(farm: &Farm, node: &str) {
    let stop = "p=$(cat /var/lib/armento/lock); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done";
    farm.sh(node, stop);
}

fn restart(farm: &Farm, node: &str, before: &str) {
    stop(farm, node);
    farm.daemon_behind(node, before);
}

/// Waits until every node shows `want` nodes with the next version.
fn wait_for_next(farm: &Farm, want: usize) {
    for node in NODES {
        let next = || {
            let all = restarts::nodes(farm, node);
            let version = |n: &serde_json::Value| n["version"].to_string();
            all.iter()
                .filter(|n| version(n).contains("control2"))
                .count()
        };
        until("the versions in nodes", || next() == want);
    }
}

/// Commands, keepers and hosts of either version work with daemons of either version.
fn versions_interoperate(farm: &Farm) {
    restarts::new_runs_work(farm);
    let next = of_version(2);
    for (home, node) in [("n1", "n2"), ("n2", "n3"), ("n3", "n1")] {
        let run = format!("{next} armento run --on {node} perl -e 'print 6 * 7'");
        assert_eq!(farm.sh(home, &run), "42");
        for what in ["nodes", "ps --all"] {
            farm.sh(home, &format!("{next} armento {what}"));
        }
    }
}

/// A request of the next version that is unknown here is refused and logged, and has no other effect.
fn unknown_requests_are_refused(farm: &Farm, node: &str) {
    until("what others do not understand", || {
        let logged = "grep -q 'unknown-question' /tmp/node.log";
        farm.run(node, logged).status.success()
    });
    farm.sh(
        node,
        "! grep -E 'panicked|should not understand' /tmp/node.log",
    );
}

pub fn programs_do_not_notice(farm: &Farm) {
    let load = Load::start(farm);
    load.tour();
    for (i, node) in NODES.into_iter().enumerate() {
        restart(farm, node, &of_version(2));
        load.is_known();
        wait_for_next(farm, i + 1);
        versions_interoperate(farm);
        unknown_requests_are_refused(farm, node);
    }
    load.stands();
    for node in ["n2", "n3", "home"] {
        load.moves_to(node);
    }
    // And back: state written by a later version is read. Its hosts are adopted, and a keeper of that version as well.
    let run = format!("{} armento run --stay sleep 77", of_version(2));
    let of_next = farm.sh("n1", &format!("{run} >/dev/null 2>&1 & echo $!"));
    let of_next = of_next.trim();
    until("a process of the next version", || {
        let go = format!("armento migrate {of_next} n2");
        farm.run("n1", &go).status.success()
    });
    load.moves_to("n2");
    load.tour();
    for (i, node) in NODES.into_iter().enumerate() {
        restart(farm, node, "");
        load.is_known();
        wait_for_next(farm, NODES.len() - 1 - i);
    }
    load.stands();
    until("it moves on", || {
        let go = format!("armento migrate {of_next} n3 && armento migrate {of_next} home");
        farm.run("n1", &go).status.success()
    });
    farm.sh("n1", &format!("kill {of_next}"));
    println!("{} moves", load.moves());
    load.ends_as_native();
}

/// A node with a different engine version accepts no new tree; a tree that has a host there keeps it.
pub fn different_engines_refuse_trees(farm: &Farm) {
    // One version later: a program goes there, on to a node of this version, and back.
    let later = format!("env ARMENTO_ENGINE_VERSION={}", ENGINE_VERSION + 1);
    restart(farm, "n3", &later);
    let load = Load::start(farm);
    for node in ["n3", "n2", "n3", "home", "n3"] {
        load.moves_to(node);
    }
    restart(farm, "n3", "env ARMENTO_ENGINE_VERSION=99");
    load.is_known();
    let other = "armento run --stay sleep 77 >/dev/null 2>&1 & echo $!";
    let other = farm.sh("n1", other).trim().to_owned();
    let out = farm.run("n1", &format!("armento migrate {other} n3"));
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["engine", "99"]);
    let why = format!("armento why {other}");
    until("the reason", || {
        farm.sh("n1", &why).contains("engine-version")
    });
    farm.sh("n1", &format!("armento migrate {other} n2; kill {other}"));
    load.moves_to("n2");
    load.moves_to("home");
    load.ends_as_native();
    restart(farm, "n3", "");
}

/// The package was upgraded without a restart: a daemon and its hosts are of one version.
pub fn replaced_binary_keeps_its_version(farm: &Farm) {
    stop(farm, "n3");
    let old = "mkdir -p /opt; cp $(command -v armento) /opt/armento; \
               setsid /opt/armento node >/tmp/node.log 2>&1 </dev/null &";
    farm.sh("n3", old);
    until("the daemon", || {
        farm.run("n3", "armento nodes").status.success()
    });
    farm.sh("n3", "rm /opt/armento; echo other > /opt/armento");
    let load = Load::start(farm);
    load.is_known();
    load.moves_to("n3");
    // Hosts of trees that have just ended may still be there.
    let program = |pid: &String| farm.run("n3", &format!("readlink /proc/{pid}/exe")).stdout;
    let all: Vec<String> = restarts::hosts(farm, "n3")
        .iter()
        .map(|p| text(&program(p)))
        .collect();
    let ours = |p: &&String| p.contains("/opt/armento (deleted)");
    assert_eq!(all.iter().filter(ours).count(), 1, "{all:?}");
    restart(farm, "n3", "");
    load.is_known();
    load.moves_to("n2");
    load.moves_to("home");
    load.ends_as_native();
}

/// With two versions difference there is one line and a hint, the order has no effect, and the program runs here.
pub fn incompatible_versions_are_refused(farm: &Farm) {
    let says = |before: &str, command: &str, words: &[&str]| {
        let out = farm.run("n1", &format!("{before} armento {command}"));
        fails_with(&out, words);
        out
    };
    let later = of_version(3);
    for command in ["nodes", "ps", "migrate 1 n2"] {
        let out = says(
            &later,
            command,
            &["daemon speaks control version 1", "2 and 3"],
        );
        assert_eq!(out.status.code(), Some(125), "{out:?}");
    }
    let out = says(
        &later,
        "run sh -c 'exit 3'",
        &["control version 1", "natively"],
    );
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    // The other way round. Running programs continue, unknown to the old daemon.
    let load = Load::start(farm);
    load.moves_to("n2");
    let words = ["control version 1", "2 and 3", "nothing was done"];
    for node in ["n1", "n2"] {
        stop(farm, node);
        farm.start(node, &later);
        until("its answer", || {
            let out = farm.run(node, "armento nodes");
            text(&out.stderr).contains(words[0])
        });
    }
    let since = Instant::now();
    for command in ["nodes", "migrate 1 n2"] {
        let out = says("", command, &words);
        assert_eq!(out.status.code(), Some(125), "{out:?}");
    }
    let out = says("", "run sh -c 'exit 3'", &["control version 1", "natively"]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    // A host without a connection ends after this time: this one is connected, and its daemon does not understand it.
    let dead = Duration::from_millis(4500);
    until("the time limit of unconnected hosts", || {
        since.elapsed() > dead
    });
    for node in ["n1", "n2"] {
        kill(farm, node);
        farm.daemon(node);
    }
    load.is_known();
    load.moves_to("n3");
    load.moves_to("home");
    load.ends_as_native();
}
