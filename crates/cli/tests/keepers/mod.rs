//! A process has one keeper, even if another is requested for it: a tree within a tree, a move at once, a shell that is
//! adopted.

use super::{Farm, fails_with, text, until};
use crate::lab::{LONG, within};
use serde_json::Value;

/// Processes that `armento ps` lists, with the names of their programs.
fn listed(farm: &Farm) -> Vec<(u64, String)> {
    let said = farm.sh("n1", "armento ps --json");
    let doc: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let procs = doc["procs"].as_array().cloned().unwrap_or_default();
    let line = |p: &Value| {
        let command = p["command"].as_str().unwrap_or_default().to_owned();
        (p["pid"].as_u64().unwrap_or_default(), command)
    };
    procs.iter().map(line).collect()
}

fn once(farm: &Farm, word: &str) -> bool {
    let all = listed(farm);
    let mut pids: Vec<u64> = all.iter().map(|(pid, _)| *pid).collect();
    pids.sort_unstable();
    assert!(pids.windows(2).all(|w| w[0] < w[1]), "{all:?}");
    all.iter().filter(|(_, c)| c.starts_with(word)).count() == 1
}

/// The outer tree's keeper has the process; options of the inner `run` that have no effect are reported.
pub fn nested_run_keeps_the_outer_keeper(farm: &Farm) {
    let inner = |options: &str| {
        let start = format!(
            "armento run --stay sh -c 'armento run {options} sh -c \"echo in; exit 3\"; exit $?'"
        );
        farm.run("n1", &start)
    };
    for (options, lost) in [("", false), ("--on n2", true)] {
        let out = inner(options);
        assert_eq!(
            (text(&out.stdout).as_str(), out.status.code()),
            ("in\n", Some(3)),
            "{out:?}"
        );
        if lost {
            fails_with(&out, &["another `armento run`"]);
        } else {
            assert!(out.stderr.is_empty(), "{out:?}");
        }
    }
    let away = farm.sh(
        "n1",
        "armento run --on n2 sh -c 'armento run sh -c \"echo in\"'",
    );
    assert_eq!(away, "in\n");
}

/// It forks a moment before it leaves: the keeper has both.
pub fn child_of_a_process_that_leaves_is_kept(farm: &Farm) {
    const FORKS: &str = r#"$SIG{USR1} = sub { exec "sleep", 78 unless fork }; open(F, ">", "/tmp/ready"); close(F); sleep 1 while 1"#;
    for _ in 0..5 {
        let start = format!(
            "rm -f /tmp/ready; armento run --stay perl -e '{FORKS}' >/dev/null 2>&1 & p=$!; until test -e /tmp/ready; do sleep 0.01; done; \
             until armento migrate $p home >/dev/null 2>&1; do sleep 0.05; done; kill -USR1 $p; armento migrate $p n2 >&2; echo $p"
        );
        let pid = farm.sh("n1", &start).trim().to_owned();
        let known = within(LONG, || once(farm, "sleep 78"));
        let there = || farm.sh("n1", "ps -eo pid,ppid,stat,args | grep -E 'sleep|perl'");
        assert!(known, "{pid}: {:?}\n{}", listed(farm), there());
        farm.sh("n1", &format!("kill $(pgrep -f '^sleep 78$') {pid}"));
        until("their ends", || {
            listed(farm)
                .iter()
                .all(|(_, c)| !c.starts_with("sleep 78") && !c.starts_with("perl"))
        });
    }
}

/// Its keeper has not sent its hello yet: no second one is made.
pub fn move_before_hello_makes_no_second_keeper(farm: &Farm) {
    for _ in 0..8 {
        let start = "armento run --stay sleep 77 >/dev/null 2>&1 & p=$!; armento migrate $p n2 && \
                     armento migrate $p n3 && armento ps --json; e=$?; armento migrate $p home; kill $p; exit $e";
        let out = farm.run("n1", start);
        assert!(out.status.success(), "{out:?}");
        assert_eq!(
            text(&out.stdout).matches("\"place\": \"n3\"").count(),
            1,
            "{out:?}"
        );
    }
}

/// The trees that a shell started before it was adopted keep their keepers.
pub fn adopted_shell_leaves_trees_their_keepers(farm: &Farm) {
    let start = "sh -c 'armento run --stay sleep 66; true' >/dev/null 2>&1 & echo $!";
    let shell = farm.sh("n1", start).trim().to_owned();
    until("the tree in ps", || once(farm, "sleep 66"));
    farm.sh("n1", &format!("armento migrate {shell} n2"));
    let both = || once(farm, "sleep 66") && once(farm, "sh -c");
    until("both in ps", both);
    // Two reports of each keeper.
    for _ in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(both());
    }
    farm.sh(
        "n1",
        &format!("armento migrate $(pgrep -P {shell}) n3; kill $(pgrep -P {shell})"),
    );
}
