//! Many moves of one busy process leak nothing: on no side memory, descriptors, threads, mappings, processes,
//! namespaces, mounts, control groups, files or keys.

use super::{Farm, text, until};
use crate::lab;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

const LOAD: &str = include_str!("load.py");
const SURVEY: &str = include_str!("survey.sh");
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// After this many moves allocators, thread pools and caches have most of what they keep.
const WARM: u64 = 30;
const WARM_LONG: u64 = 1000;
/// Moves in all: of `make test`, and of `make test-all`.
const MOVES: u64 = 150;
const MOVES_LONG: u64 = 10_000;
/// Rounds of three moves between two surveys.
const ROUNDS: u64 = 50;
/// Tolerance for an allocator's variation: a new arena for a thread was once seen to add 1.2 MiB. In 9,000 moves growth
/// was less than 240 bytes a move.
const GROWN_MAX_KIB: u64 = 2048;
/// Surveys half a second apart; more when something seems to have grown.
const LOOKS: u32 = 4;
const LOOKS_MORE: u32 = 40;

/// Counts, and memory, each under its node, its owner and its name.
#[derive(Debug, Default)]
pub struct Survey {
    counts: BTreeMap<String, u64>,
    kib: BTreeMap<String, u64>,
}

fn survey(farm: &Farm) -> Survey {
    let mut all = Survey::default();
    for node in NODES {
        for line in farm.sh(node, SURVEY).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            for pair in words[1..].chunks(2) {
                let [name, value] = pair else { continue };
                let value: u64 = value.parse().unwrap_or_else(|_| panic!("{node}: {line}"));
                let place = if *name == "kib" {
                    &mut all.kib
                } else {
                    &mut all.counts
                };
                *place
                    .entry(format!("{node} {} {name}", words[0]))
                    .or_default() += value;
            }
        }
    }
    all
}

/// What nodes have, without processes.
pub fn node_survey(farm: &Farm) -> Survey {
    let mut all = survey(farm);
    let of_node =
        |what: &String| what.split(' ').nth(1) == Some("node") && !what.ends_with(" files");
    all.counts.retain(|what, _| of_node(what));
    all.kib.clear();
    all
}

fn listed(farm: &Farm) -> Option<u64> {
    let said = farm.sh("n1", "armento ps --json");
    let doc: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    doc["procs"][0]["moves"].as_u64()
}

fn moves(farm: &Farm) -> u64 {
    let log = || text(&farm.run("n1", "cat /tmp/leak/out").stdout);
    listed(farm).unwrap_or_else(|| panic!("it is gone: {}", log()))
}

/// Moves it to each node and home, again and again.
fn tour(farm: &Farm, pid: &str, until_moves: u64) {
    let round = format!(
        "for to in n2 n3 home; do armento migrate {pid} $to >/dev/null 2>>/tmp/leak/refused; done"
    );
    let (mut before, mut idle) = (moves(farm), 0);
    while before < until_moves {
        let rounds = (until_moves - before).div_ceil(3).min(ROUNDS);
        farm.run("n1", &format!("for i in $(seq {rounds}); do {round}; done"));
        let now = moves(farm);
        idle = if now == before { idle + 1 } else { 0 };
        let refused = || text(&farm.run("n1", "tail -3 /tmp/leak/refused").stdout);
        assert!(idle < 10, "it does not move: {}", refused());
        before = now;
    }
    farm.run("n1", &format!("armento migrate {pid} home"));
}

/// The least of each over some surveys: daemons exchange messages all the time, idle threads end after some seconds,
/// and recently closed objects may still be going away.
fn settled(farm: &Farm, looks: u32, enough: impl Fn(&Survey) -> bool) -> Survey {
    let mut least = survey(farm);
    for _ in 0..looks {
        if enough(&least) {
            break;
        }
        sleep(Duration::from_millis(500));
        let now = survey(farm);
        for (least, now) in [(&mut least.counts, now.counts), (&mut least.kib, now.kib)] {
            for (what, n) in now {
                least
                    .entry(what)
                    .and_modify(|m| *m = n.min(*m))
                    .or_insert(n);
            }
        }
    }
    least
}

pub fn grown(before: &Survey, after: &Survey) -> Vec<String> {
    let was = |all: &BTreeMap<String, u64>, what: &str| all.get(what).copied().unwrap_or(0);
    // The C library keeps the stacks of threads that ended, as many as there ever were at once and 40 MiB at most
    // (glibc.pthread.stack_cache_size): a guard and a stack each. Threads are counted themselves.
    let kept = |what: &str| {
        let of = |all| was(all, &what.replace(" maps", " stacks"));
        2 * of(&after.counts).saturating_sub(of(&before.counts))
    };
    let exact = after.counts.iter().filter(|(w, _)| !w.ends_with(" stacks"));
    let counts = exact.filter_map(|(what, n)| {
        let more = if what.ends_with(" maps") {
            kept(what)
        } else {
            0
        };
        let was = was(&before.counts, what);
        (*n > was + more).then(|| format!("{what}: {was} became {n}"))
    });
    let kib = after.kib.iter().filter_map(|(what, n)| {
        let was = was(&before.kib, what);
        (*n > was + GROWN_MAX_KIB).then(|| format!("{what}: {was} became {n} KiB"))
    });
    counts.chain(kib).collect()
}

pub fn many_moves(farm: &Farm) {
    let clean = "mkdir -p /tmp/leak; cat > /tmp/leak/load.py";
    farm.sh("n1", &format!("{clean} <<'EOF'\n{LOAD}EOF"));
    let start = "cd /tmp/leak; armento run --stay python3 load.py >out 2>&1 & echo $!";
    let pid = farm.sh("n1", start).trim().to_owned();
    until("the load", || {
        farm.run("n1", "test -e /tmp/leak/ready").status.success() && listed(farm).is_some()
    });
    // The daemon opens the three files of its history with the first write, ten seconds after the first job or when asked.
    farm.sh("n1", "armento history");
    let warm = if lab::is_long() { WARM_LONG } else { WARM };
    tour(farm, &pid, warm);
    let before = settled(farm, LOOKS, |_| false);
    let all = if lab::is_long() { MOVES_LONG } else { MOVES };
    tour(farm, &pid, all);
    let after = settled(farm, LOOKS_MORE, |now| grown(&before, now).is_empty());
    println!("before: {before:?}\nafter: {after:?}");
    let moves = moves(farm);
    if !grown(&before, &after).is_empty() {
        let all = |node| {
            format!(
                "{node}:\n{}",
                farm.sh(node, "ps -eo pid,ppid,stat,etimes,args")
            )
        };
        println!("{}", NODES.map(all).join("\n"));
    }
    assert_eq!(grown(&before, &after), [""; 0], "after {moves} moves");
    farm.sh("n1", "touch /tmp/leak/stop");
    until("its end", || {
        !farm.run("n1", &format!("kill -0 {pid}")).status.success()
    });
    let out = farm.sh("n1", "cat /tmp/leak/out");
    let rounds: Vec<&str> = out.lines().filter_map(|l| l.split(' ').nth(1)).collect();
    let again = format!("python3 /tmp/leak/load.py {}", rounds.join(" "));
    assert_eq!(farm.sh("n1", &again), out);
}
