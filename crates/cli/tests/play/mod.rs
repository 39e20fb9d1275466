//! A scenario as a user runs it: on a farm of this machine and in virtual time, from one file.

use super::Node;
use armento_lab::{Lab, Spec};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const TROUBLES: &str = "about = 'what happens on a farm'
series = [8]
limit = 60.0

[[nodes]]
count = 4
speed = 0.2
mem = 128

[[jobs]]
seconds = 4.0
lengths = 'uniform'

[[events]]
at = 2.0
node = 2
what = 'owner'
for = 3.0

[[events]]
at = 2.0
node = 3
what = 'crash'
for = 2.0

[[events]]
at = 3.0
node = 4
what = 'cut'
for = 3.0
";

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"))
}

/// The one row of the result.
fn row(said: &[u8]) -> Value {
    let doc: Value = serde_json::from_slice(said).expect("JSON");
    assert_eq!(doc["schema"], "armento.played/1");
    let rows = doc["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{doc}");
    rows[0].clone()
}

/// Programs on the crashed node are lost, and no others.
fn has_ended(row: &Value) {
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert!(number("jobs") == 8.0 && number("lost") <= 4.0, "{row}");
    assert!(
        number("makespan_s") > 0.0 && number("makespan_s") < 60.0,
        "{row}"
    );
    assert!(number("mean_s") <= number("makespan_s"), "{row}");
    assert!(number("moves") > 0.0, "{row}");
}

#[test]
fn scenario_with_faults_runs_on_farm_and_in_simulation() {
    let here = Node::new();
    let file = here.dir.join("troubles.toml");
    fs::write(&file, TROUBLES).expect("written");
    let file = file.to_str().expect("text");
    let words = ["--policy", "armento", "--runs", "1", "--json"];
    let sim = [&["sim", file], &words[..]].concat();
    has_ended(&row(here.ok(&sim).as_bytes()));
    if !is_root() {
        println!("skipped: a farm needs root (namespaces, mounts, control groups)");
        return;
    }
    let mut play = here.command(super::ARMENTO);
    let play = play.args(["lab", "play", file]).args(words);
    let play = play
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("armento runs");
    let name = format!("play-{}", play.id());
    let done = play.wait_with_output().expect("its end");
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{err}");
    has_ended(&row(&done.stdout));
    let gone = here.fails(&["lab", "exec", "--name", &name, "n1", "--", "true"]);
    assert!(gone.contains("there is no lab"), "{gone}");
}

#[test]
fn gnu_parallel_runs_the_scenario_jobs() {
    let here = Node::new();
    let found = Command::new("parallel").arg("--version").output();
    if !is_root() || !found.is_ok_and(|o| o.stdout.starts_with(b"GNU parallel")) {
        println!("skipped: it needs root and the package parallel");
        return;
    }
    let text = "about = 'four'\n[[nodes]]\ncount = 2\nspeed = 0.5\n[[jobs]]\ncount = 4\nseconds = 0.5\nevery = 0.2\n";
    let file = here.dir.join("four.toml");
    fs::write(&file, text).expect("written");
    let words = ["--policy", "parallel", "--runs", "1", "--json"];
    let file = file.to_str().expect("text");
    let said = here.ok(&[&["lab", "play", file], &words[..]].concat());
    let row = row(said.as_bytes());
    assert!(row["lost"] == 0 && row["moves"] == 0, "{row}");
    // All of the work, on the capacity of both.
    assert!(row["ratio"].as_f64().is_some_and(|r| r >= 0.99), "{row}");
}

#[test]
fn cores_that_the_machine_lacks_are_refused_with_the_numbers() {
    if !is_root() {
        println!("skipped: a farm needs root (namespaces, mounts, control groups)");
        return;
    }
    let here = Node::new();
    let text = "about = 'many'\n[[nodes]]\ncount = 64\ncores = 64\nspeed = 1.0\n[[jobs]]\ncount = 1\nseconds = 0.1\n";
    let file = here.dir.join("many.toml");
    fs::write(&file, text).expect("written");
    let file = file.to_str().expect("text");
    let said = here.fails(&["lab", "play", file, "--policy", "none", "--runs", "1"]);
    assert!(
        said.contains("64 cores of speed 1 are 64.00 processors")
            || said.contains("the 4096 cores"),
        "{said}"
    );
    assert!(said.contains("hint: "), "{said}");
}

#[test]
fn farms_on_direct_links_have_all_their_nodes() {
    if !is_root() {
        println!("skipped: a farm needs root (namespaces, mounts, control groups)");
        return;
    }
    for (link, server, client) in [("p2p:n2", 2, "n1"), ("two-p2p", 3, "n4")] {
        let lab = Lab::up(Spec {
            name: format!("links-{}", std::process::id()),
            link: link.parse().expect("a link"),
            exe: Some(super::ARMENTO.into()),
            ..Spec::default()
        })
        .expect("a farm");
        let run = |words: &[&str]| {
            let mut c = lab.node(server).command("armento");
            let done = c
                .args(words)
                .stdin(Stdio::null())
                .output()
                .expect("it runs");
            let err = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{link}: {err}");
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let alive = || run(&["nodes", "--json"]).matches("\"alive\"").count();
        let until = std::time::Instant::now() + super::LONG;
        while alive() != 4 {
            assert!(std::time::Instant::now() < until, "{link}");
            std::thread::yield_now();
        }
        run(&["run", "--on", client, "true"]);
    }
}

#[test]
fn scenario_errors_are_one_line() {
    let here = Node::new();
    let file = here.dir.join("wrong.toml");
    let path = file.to_str().expect("text");
    for (text, about) in [
        (TROUBLES.replace("'cut'", "'flood'"), "flood"),
        (TROUBLES.replace("node = 4", "node = 5"), "5"),
        (TROUBLES.replace("speed = 0.2", "speed = 0.0"), "speed"),
        (TROUBLES.replace("limit", "limits"), "limits"),
    ] {
        fs::write(&file, text).expect("written");
        for verb in [&["sim"][..], &["lab", "play"]] {
            let out = here.run(&[verb, &[path]].concat());
            assert_eq!(out.status.code(), Some(125));
            let said = String::from_utf8(out.stderr).expect("text");
            assert!(
                said.contains("wrong.toml: ") && said.contains(about),
                "{said}"
            );
            let last = said.lines().last();
            assert!(last.is_some_and(|l| l.starts_with("hint: ")), "{said}");
            assert!(!said.contains("\n\n"), "{said}");
        }
    }
}
