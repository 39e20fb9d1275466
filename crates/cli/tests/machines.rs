//! Nodes with different processors and kernels: programs that may not run there stay, programs that are limited to common
//! CPU features move.

mod lab;
#[path = "machines/qemu.rs"]
mod qemu;

use lab::{Farm, until};
use serde_json::Value;

/// A few seconds of computing, strings and lines: functions for which glibc has variants for each processor.
const PROGRAM: &str = r#"$|=1; for $i (1..160) { $x=0; for $j (1..400000) { $x+=$j%7 } $s = "ab" x (500+$i); $n = index($s x 9, "aa"); printf "%d %d %d %.9f\n", $i, $x, length($s)+$n, sin($i)*exp($i/9) }"#;
/// CPU features that n2 is configured not to have; the lab's machine has at least the first.
const WITHOUT: &str = "avx2,avx512f,avx512bw,avx512vl,bmi2";

/// Restarts the node's daemon in this environment.
fn restart(farm: &Farm, node: &str, environment: &str) {
    farm.sh(node, "pkill -f '[a]rmento node'");
    farm.daemon_behind(node, &format!("env {environment}"));
}

/// Starts a program of n1; returns its pid.
fn start(farm: &Farm, options: &str, log: &str) -> String {
    let run = format!("armento run {options} perl -e '{PROGRAM}' > {log} 2>&1 & echo $!");
    let pid = farm.sh("n1", &run).trim().to_owned();
    until("its first line", || {
        farm.run("n1", &format!("test -s {log}")).status.success()
    });
    until("a line of it", || listed(farm, &pid).is_some());
    pid
}

fn json(farm: &Farm, command: &str) -> Value {
    let said = farm.sh("n1", command);
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn listed(farm: &Farm, pid: &str) -> Option<Value> {
    let doc = json(farm, "armento ps --json");
    let procs = doc["procs"].as_array().cloned().unwrap_or_default();
    let pid: Option<u64> = pid.parse().ok();
    procs.into_iter().find(|p| p["pid"].as_u64() == pid)
}

/// A move to `node` is refused because of the processor there.
fn stays(farm: &Farm, pid: &str, node: &str, words: &[&str]) {
    let out = farm.run("n1", &format!("armento migrate {pid} {node}"));
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(err.contains("armento run --portable"), "{err}");
    words
        .iter()
        .for_each(|w| assert!(err.contains(w), "{w}: {err}"));
    assert_eq!(listed(farm, pid).expect("it lives")["place"], "n1");
}

/// It ends with the output of a native run.
fn ends(farm: &Farm, pid: &str, log: &str, native: &str) {
    until("its end", || listed(farm, pid).is_none());
    assert_eq!(farm.sh("n1", &format!("cat {log}")), native);
}

#[test]
fn cpu_with_fewer_features_takes_portable_programs() {
    let Some(farm) = Farm::up("cpu", None) else {
        return;
    };
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    restart(&farm, "n2", &format!("ARMENTO_CPU_WITHOUT={WITHOUT}"));
    // Until n1's daemon has received n2's CPU features, n2's host refuses the program.
    let known = || {
        let pid = start(&farm, "--stay", "/tmp/probe");
        let out = farm.run("n1", &format!("armento migrate {pid} n2"));
        farm.sh("n1", &format!("kill {pid}"));
        String::from_utf8_lossy(&out.stderr).contains("n2 lacks")
    };
    until("n2's CPU features at n1", known);

    let plain = start(&farm, "--stay", "/tmp/plain");
    stays(&farm, &plain, "n2", &["n2 lacks", "avx2"]);
    farm.sh("n1", &format!("armento migrate {plain} n3"));
    farm.sh("n1", &format!("armento migrate {plain} home"));

    // At once, before a report with the program's CPU features has arrived.
    let run = "armento run --portable --stay sleep 99 >/dev/null 2>&1 & p=$!; armento migrate $p n2; kill $p";
    let out = farm.run("n1", run);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!said.contains("lacks"), "{said}");

    let portable = start(&farm, "--portable --stay", "/tmp/portable");
    assert_eq!(
        listed(&farm, &portable).expect("it lives")["portable"],
        true
    );
    for node in ["n2", "n3", "n2", "home", "n2"] {
        farm.sh("n1", &format!("armento migrate {portable} {node}"));
    }
    assert_eq!(listed(&farm, &portable).expect("it lives")["place"], "n2");
    ends(&farm, &portable, "/tmp/portable", &native);
    ends(&farm, &plain, "/tmp/plain", &native);
    if lab::long() {
        let storm = "armento run --portable --storm 15 --seed 7 perl -e";
        assert_eq!(farm.sh("n1", &format!("{storm} '{PROGRAM}'")), native);
    }
    tunables_limit_glibc(&farm);
    child_without_tunables(&farm);
    no_suitable_node(&farm);
}

/// glibc is limited to the common features, and keeps its user's tunables.
fn tunables_limit_glibc(farm: &Farm) {
    let run = "GLIBC_TUNABLES=glibc.malloc.perturb=7 armento run --portable --stay sh -c";
    let said = farm.sh("n1", &format!("{run} 'echo $GLIBC_TUNABLES'"));
    let said = said.trim();
    assert!(
        said.starts_with("glibc.malloc.perturb=7:glibc.cpu.hwcaps=-"),
        "{said}"
    );
    assert!(said.contains("-AVX2"), "{said}");
    let active = |tunables: &str| {
        let ask = "/lib64/ld-linux-x86-64.so.2 --list-diagnostics | grep subdirs_active";
        farm.sh("n1", &format!("GLIBC_TUNABLES={tunables} {ask}"))
    };
    // Libraries that it would load from directories for AVX2.
    assert_ne!(active(said), active(""));
}

/// A child that was started with another environment may use every feature.
fn child_without_tunables(farm: &Farm) {
    let run = format!("armento run --portable --stay env -u GLIBC_TUNABLES perl -e '{PROGRAM}'");
    let pid = farm.sh("n1", &format!("{run} > /tmp/untold 2>&1 & echo $!"));
    let pid = pid.trim();
    until("its first line", || {
        farm.run("n1", "test -s /tmp/untold").status.success()
    });
    until("a line of it", || listed(farm, pid).is_some());
    stays(farm, pid, "n2", &["n2 lacks", "avx2"]);
    farm.sh("n1", &format!("kill {pid}"));
}

/// A feature that no node has is not checked; where no node with room can run the program, `why` names the reason.
fn no_suitable_node(farm: &Farm) {
    restart(farm, "n3", &format!("ARMENTO_CPU_WITHOUT={WITHOUT}"));
    let pid = farm.sh(
        "n1",
        "armento run sh -c 'while :; do :; done' > /tmp/loop 2>&1 & echo $!",
    );
    let pid = pid.trim();
    let mut doc = Value::Null;
    let said = lab::within(lab::LONG, || {
        doc = json(farm, &format!("armento why {pid} --json"));
        let detail = doc["detail"].as_str().unwrap_or_default();
        doc["stay"] == "cpu-features" && detail.contains("n3 lacks") && detail.contains("avx2")
    });
    assert!(said, "{doc} of {:?}", listed(farm, pid));
    farm.sh("n1", &format!("kill {pid}"));
}

#[test]
fn different_xsave_layout_is_a_reason_to_stay() {
    let Some(farm) = Farm::up("xsave", None) else {
        return;
    };
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    // The daemons' feature sets are the same: the target's host refuses it before anything is moved.
    restart(&farm, "n2", "ARMENTO_CPU_XSAVE=2@640");
    let pid = start(&farm, "--stay", "/tmp/layout");
    stays(
        &farm,
        &pid,
        "n2",
        &["XSAVE layout", "AVX at byte 640, not 576"],
    );
    until("its reason", || {
        listed(&farm, &pid).is_some_and(|p| {
            p["stay"] == "cpu-features" && p["detail"].to_string().contains("byte 640")
        })
    });
    let doc = json(&farm, &format!("armento why {pid} --json"));
    assert_eq!(doc["stay"], "cpu-features", "{doc}");
    farm.sh("n1", &format!("armento migrate {pid} n3"));
    ends(&farm, &pid, "/tmp/layout", &native);
}
