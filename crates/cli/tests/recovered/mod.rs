//! `armento run --safe=remote` and `armento farm recover`: a home is lost, and its program goes on at the node that keeps its
//! checkpoint; nothing runs twice.

use crate::lab::{Farm, long, until};
use crate::restarts::json;
use crate::{USER, fails_with};
use serde_json::Value;

/// Lines with a sum: one that is lost or written twice shows.
const PROGRAM: &str = r#"$| = 1; open(P, ">", "/tmp/pid"); print P $$; close(P); open(F, ">>", "/tmp/wrote"); $s = 0; for $i (1..1800) { $s += $i; syswrite(F, "$i $s\n"); select(undef, undef, undef, 0.02) } print "end $s\n""#;
const TURNS: u64 = 1800;

/// Starts a program without the descriptors that the tests were started with: a checkpoint would have to name them.
const CLEAN: &str = "perl -MPOSIX -e 'POSIX::close($_) for 3..255; exec @ARGV' --";

/// All that Armento and the program have at the node, as a power cut ends it.
const POWER_CUT: &str = "pkill -STOP -f '^armento (node|run|host)'; pkill -9 -x perl; pkill -9 -f '^armento (node|run|host)'; true";

fn starts(farm: &Farm) -> String {
    // Its output leads to another program: where it goes on it gets a file.
    let start = format!(
        "rm -f /tmp/wrote /tmp/pid; {CLEAN} armento run --safe=remote:2 --begin here perl -e '{PROGRAM}' </dev/null 2>/tmp/err | cat >/dev/null 2>&1 & "
    );
    farm.sh("n1", &start);
    until("its pid", || {
        !farm.run("n1", "cat /tmp/pid").stdout.is_empty()
    });
    farm.sh("n1", "cat /tmp/pid").trim().to_owned()
}

/// What n2 or n3 keeps of the program, as `node` is told.
fn kept(farm: &Farm, node: &str) -> Option<Value> {
    let doc = json(farm, node, "armento farm recover --list --json")?;
    doc["kept"].as_array()?.first().cloned()
}

fn kept_with(farm: &Farm, node: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    until("a kept checkpoint", || {
        found = kept(farm, node).filter(&is);
        found.is_some()
    });
    found.unwrap_or_default()
}

fn lines(text: &str) -> Vec<(u64, u64)> {
    let pair = |l: &str| {
        let (i, s) = l.split_once(' ')?;
        Some((i.parse().ok()?, s.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn is_right(text: &str, turns: u64) {
    let right: Vec<(u64, u64)> = (1..=turns).map(|i| (i, i * (i + 1) / 2)).collect();
    assert_eq!(lines(text), right);
}

#[test]
fn program_of_a_lost_home_goes_on_once_at_the_node_that_keeps_it() {
    let Some(farm) = Farm::up("kept", None) else {
        return;
    };
    let pid = starts(&farm);
    let k = kept_with(&farm, "n3", |k| k["bytes"].as_u64() > Some(0));
    let (id, at) = (
        k["id"].as_str().unwrap_or_default().to_owned(),
        k["node"].as_str().unwrap_or_default().to_owned(),
    );
    assert_eq!((k["home"].as_str(), at.as_str()), (Some("n1"), "n2"), "{k}");
    until("its place in `why`", || {
        let why = farm.sh("n1", &format!("armento why {pid}"));
        why.contains("kept at n2")
    });

    // Its home is alive.
    let recover = format!("armento farm recover {id}");
    fails_with(&farm.run("n2", &recover), &["n1 is alive"]);
    fails_with(&farm.run("n3", &recover), &["kept at n2"]);
    fails_with(
        &farm.run("n2", "armento farm recover n1-0123456789abcdef"),
        &["no checkpoint"],
    );
    fails_with(
        &farm.run("n2", &format!("{USER} {recover}")),
        &["no checkpoint", "of yours"],
    );
    fails_with(
        &farm.run("n2", "armento farm recover --all"),
        &["nothing that can be recovered"],
    );

    farm.sh("n1", POWER_CUT);
    // Until its lease is over, whatever the others think of its home.
    kept_with(&farm, "n2", |k| k["home_alive"] == false);
    let out = farm.run("n2", &recover);
    if !out.status.success() {
        fails_with(&out, &["n1 may still run it"]);
    }
    kept_with(&farm, "n2", |k| k["refused"].is_null());
    let plan = farm.sh("n2", &format!("{recover} --dry-run"));
    assert!(plan.contains("go on here"), "{plan}");
    let said = farm.sh("n2", &format!("{recover} --output /tmp/out"));
    assert!(said.contains("goes on as process"), "{said}");
    // Once.
    fails_with(&farm.run("n2", &recover), &["recovered already"]);
    until("its end", || farm.sh("n2", "cat /tmp/out").contains("end "));
    is_right(&farm.sh("n2", "cat /tmp/wrote"), TURNS);
    let out = farm.sh("n2", "cat /tmp/out");
    let end = format!("end {}", TURNS * (TURNS + 1) / 2);
    assert_eq!(out.matches(&end).count(), 1, "{out}");
}

#[test]
fn cut_off_home_stops_its_program_and_ends_it_when_it_was_recovered() {
    if !long() {
        return;
    }
    let Some(farm) = Farm::up("lease", None) else {
        return;
    };
    let pid = starts(&farm);
    let k = kept_with(&farm, "n2", |k| k["bytes"].as_u64() > Some(0));
    let id = k["id"].as_str().unwrap_or_default().to_owned();
    let state = || {
        let state = format!("sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/{pid}/status 2>/dev/null");
        farm.run("n1", &state).stdout
    };
    // Its home cannot renew the lease: it is stopped before the other node lets it be recovered.
    farm.sh("n1", "ip link set eth0 down");
    until("its stop", || state() == b"T\n");
    assert!(farm.sh("n1", "cat /tmp/err").contains("it is stopped"));
    // Its user continues it: it is stopped again.
    farm.sh("n1", &format!("kill -CONT {pid}; sleep 0.5"));
    assert_eq!(state(), b"T\n");
    farm.sh("n1", "ip link set eth0 up");
    until("its continuation", || state() != b"T\n");
    // Cut off again, and recovered.
    farm.sh("n1", "ip link set eth0 down");
    kept_with(&farm, "n2", |k| k["refused"].is_null());
    assert_eq!(state(), b"T\n");
    let written = farm.sh("n1", "wc -l < /tmp/wrote");
    farm.sh(
        "n2",
        &format!("armento farm recover {id} --output /tmp/out"),
    );
    farm.sh("n1", "ip link set eth0 up");
    until("its end at home", || state().is_empty());
    let said = farm.sh("n1", "cat /tmp/err");
    assert!(said.contains("recovered at n2"), "{said}");
    assert_eq!(farm.sh("n1", "wc -l < /tmp/wrote"), written);
    until("its end", || farm.sh("n2", "cat /tmp/out").contains("end "));
    is_right(&farm.sh("n2", "cat /tmp/wrote"), TURNS);
    until("nothing kept", || kept(&farm, "n2").is_none());
}

#[test]
fn lost_keeper_makes_recovery_ask_whether_the_home_is_off() {
    if !long() {
        return;
    }
    let Some(farm) = Farm::up("gone", None) else {
        return;
    };
    starts(&farm);
    let k = kept_with(&farm, "n2", |k| k["bytes"].as_u64() > Some(0));
    let id = k["id"].as_str().unwrap_or_default().to_owned();
    farm.sh("n1", "pkill -9 -f '^armento run'");
    kept_with(&farm, "n2", |k| k["unsure"] == true);
    // The daemon alone would not know it either after a new start.
    farm.sh("n1", "pkill -9 -x perl; ip link set eth0 down");
    kept_with(&farm, "n2", |k| {
        k["home_alive"] == false && k["wait_ms"] == 0
    });
    let recover = format!("armento farm recover {id}");
    let out = farm.run("n2", &recover);
    fails_with(&out, &["its keeper at n1 has ended"]);
    fails_with(
        &farm.run("n2", "armento farm recover --all"),
        &["nothing that can be recovered"],
    );
    farm.sh("n2", &format!("{recover} --home-is-off --output /tmp/out"));
    until("its end", || farm.sh("n2", "cat /tmp/out").contains("end "));
    is_right(&farm.sh("n2", "cat /tmp/wrote"), TURNS);
}
