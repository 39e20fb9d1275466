//! Daemons are killed and started again while a program moves about: the program does not notice, the new daemons find
//! it again, and nothing exists twice.

use super::{Farm, leaks, text, until};
use crate::lab;
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

pub const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Kills of each daemon: in `make test`, and in `make test-all`.
const ROUNDS: u32 = 3;
const ROUNDS_LONG: u32 = 100;

/// Effects that show when one is lost or repeated: lines of a file, bytes through a pipe, children; and computing. It
/// ends after so many turns, or at /tmp/stop, and prints how many it made.
const PROGRAM: &str = r#"$| = 1; use IO::Handle; ($file, $limit) = @ARGV; open(F, ">>", $file); F->autoflush(1); pipe(R, W);
 until ($limit ? $i == $limit : -e "/tmp/stop") { $i++; for (1..3000) { $x = ($x * 69069 + $i + $_) % 4294967296 }
 syswrite(W, "$i\n"); sysread(R, $b, 100); print F "$i $x $b";
 if ($i % 100 == 0) { if (!fork) { print F "child of $i\n"; exit 3 } wait; print F "$?\n" }
 select(undef, undef, undef, 0.003) unless $limit } print F "end\n"; print "$i\n""#;

/// The program under `armento run`, with home n1.
pub struct Load<'a> {
    farm: &'a Farm,
    pub pid: String,
}

impl Load<'_> {
    pub fn start(farm: &Farm) -> Load<'_> {
        let start = format!(
            "rm -f /tmp/stop /tmp/wrote /tmp/out; \
             armento run --stay perl -e '{PROGRAM}' /tmp/wrote >/tmp/out 2>&1 & echo $!"
        );
        let pid = farm.sh("n1", &start).trim().to_owned();
        until("its first lines", || {
            farm.run("n1", "test -s /tmp/wrote").status.success()
        });
        Load { farm, pid }
    }

    /// Moves it round until /tmp/still is there.
    pub fn tour(&self) {
        let round = "for to in n2 n3 home; do [ -e /tmp/still ] || armento migrate PID $to || sleep 0.05; done";
        let tour = format!(
            "rm -f /tmp/still /tmp/stood; \
             (until [ -e /tmp/still ]; do {round}; done; touch /tmp/stood) >/tmp/tour 2>&1 &"
        );
        self.farm.sh("n1", &tour.replace("PID", &self.pid));
    }

    pub fn stands(&self) {
        self.farm.sh("n1", "touch /tmp/still");
        until("the end of the tour", || {
            self.farm.run("n1", "test -e /tmp/stood").status.success()
        });
    }

    /// Moves it there. A node that was killed must first be a member again.
    pub fn moves_to(&self, node: &str) {
        let order = format!("armento migrate {} {node}", self.pid);
        let mut said = String::new();
        let moved = || {
            let out = self.farm.run("n1", &order);
            said = text(&out.stderr);
            out.status.success()
        };
        let in_time = lab::within(lab::LONG, moved);
        assert!(in_time, "no move to {node}: {said}");
    }

    /// Its entry in `armento ps`.
    pub fn seen(&self) -> Option<Value> {
        let doc = json(self.farm, "n1", "armento ps --json")?;
        let all = doc["procs"].as_array()?.iter();
        let mut its = all.filter(|p| p["pid"].as_u64() == self.pid.parse().ok());
        let one = its.next().cloned();
        assert!(its.next().is_none(), "it is there twice: {doc}");
        one
    }

    pub fn moves(&self) -> u64 {
        let moves = self.seen().and_then(|p| p["moves"].as_u64());
        moves.expect("it is in ps")
    }

    /// `ps` and `why` show it again, and all nodes are alive.
    pub fn is_known(&self) {
        until("it in ps", || self.seen().is_some());
        let why = format!("armento why {}", self.pid);
        self.farm.sh("n1", &why);
        for node in NODES {
            until("all nodes", || alive(self.farm, node) == NODES.len());
        }
    }

    /// Its end: no effect was lost or repeated.
    pub fn ends_as_native(self) {
        let farm = self.farm;
        farm.sh("n1", "touch /tmp/stop");
        until("its end", || {
            let lives = format!("kill -0 {}", self.pid);
            !farm.run("n1", &lives).status.success()
        });
        let said = farm.sh("n1", "cat /tmp/out");
        let turns: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
        let native = format!("rm -f /tmp/native; perl -e '{PROGRAM}' /tmp/native {turns}");
        assert_eq!(farm.sh("n1", &native), said);
        farm.sh("n1", "cmp /tmp/native /tmp/wrote");
        println!("{turns} turns");
    }
}

pub fn json(farm: &Farm, node: &str, command: &str) -> Option<Value> {
    let out = farm.run(node, command);
    serde_json::from_slice(&out.stdout).ok()
}

/// The nodes as `node` lists them.
pub fn nodes(farm: &Farm, node: &str) -> Vec<Value> {
    let doc = json(farm, node, "armento nodes --json");
    let nodes = doc.and_then(|d| d["nodes"].as_array().cloned());
    nodes.unwrap_or_default()
}

fn alive(farm: &Farm, node: &str) -> usize {
    let all = nodes(farm, node);
    all.iter().filter(|n| n["state"] == "alive").count()
}

/// Kills the daemon alone, without its hosts.
pub fn kill(farm: &Farm, node: &str) {
    let kill = "p=$(cat /var/lib/armento/lock); kill -9 $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done";
    farm.sh(node, kill);
}

fn killed_and_started(farm: &Farm, node: &str) {
    kill(farm, node);
    farm.daemon(node);
}

/// Pids of hosts there; their guards and zygotes have names of their own.
pub fn hosts(farm: &Farm, node: &str) -> Vec<String> {
    let all =
        "for p in $(pgrep -f '[a]rmento host'); do grep -qx armento /proc/$p/comm && echo $p; done";
    let all = farm.run(node, all);
    text(&all.stdout).lines().map(str::to_owned).collect()
}

/// Kills at any moment of its moves: the daemons of its home, of the node it is on, of the one it goes to.
fn kills_during_moves(farm: &Farm, load: &Load) {
    let rounds = if lab::is_long() { ROUNDS_LONG } else { ROUNDS };
    load.tour();
    for _ in 0..rounds {
        for node in NODES {
            killed_and_started(farm, node);
            load.is_known();
        }
    }
    load.stands();
    println!("{} moves", load.moves());
    assert!(load.moves() > 10, "{} moves", load.moves());
}

/// Kills the daemon of the node that orders a move, and of each end of it, during the move.
fn kills_at_the_ends_of_a_move(farm: &Farm, load: &Load) {
    for dies in NODES {
        load.moves_to("n2");
        let order = format!("armento migrate {} n3", load.pid);
        std::thread::scope(|s| {
            let moving = s.spawn(|| farm.run("n1", &order));
            kill(farm, dies);
            // Moved or not, both are allowed.
            let _ = moving.join();
        });
        farm.daemon(dies);
        load.is_known();
        load.moves_to("n3");
        load.moves_to("home");
    }
}

/// A host goes on without its daemon, and is adopted by the next one.
fn hosts_are_adopted(farm: &Farm, load: &Load) {
    load.moves_to("n2");
    let before = hosts(farm, "n2");
    assert_eq!(before.len(), 1, "{before:?}");
    let moved = load.moves();
    killed_and_started(farm, "n2");
    let guests = || {
        let all = nodes(farm, "n2");
        let own = all.iter().find(|n| n["name"] == "n2");
        own.and_then(|n| n["guests"].as_u64())
    };
    until("its guest", || guests() == Some(1));
    assert_eq!(hosts(farm, "n2"), before);
    // There is a connection to it, and no second host is started.
    load.moves_to("n3");
    load.moves_to("n2");
    assert_eq!(load.moves(), moved + 2);
    let after = hosts(farm, "n2");
    assert_eq!(after.len(), 1, "{after:?}");
}

/// A daemon that has not received its keepers' reports yet waits: a second keeper would take the first for a debugger.
fn one_keeper(farm: &Farm, load: &Load) {
    load.moves_to("home");
    let keepers = || farm.sh("n1", "pgrep '^armento-keeper$'");
    let before = keepers();
    kill(farm, "n1");
    let late = "kill -STOP $(pgrep '^armento-keeper$'); \
                (sleep 1; kill -CONT $(pgrep '^armento-keeper$')) >/dev/null 2>&1 &";
    farm.sh("n1", late);
    farm.daemon("n1");
    load.moves_to("n2");
    assert_eq!(keepers(), before);
    load.is_known();
}

/// A daemon is killed at any moment of a host's start: a half-started host ends, and the program runs there, or nowhere
/// with an error.
fn kills_during_host_start(farm: &Farm) {
    let run = "armento run --on n2 perl -e 'print 6 * 7'";
    for after in (0..if lab::is_long() { 60 } else { 6 }).map(|n| n % 12 * 7) {
        let out = std::thread::scope(|s| {
            let runs = s.spawn(|| farm.run("n1", run));
            sleep(Duration::from_millis(after));
            kill(farm, "n2");
            runs.join().expect("it runs")
        });
        match out.status.code() {
            // `--on n2` cannot be fulfilled without n2.
            Some(125) => {
                assert_eq!(text(&out.stdout), "", "{out:?}");
                assert!(text(&out.stderr).contains("n2"), "{out:?}");
            }
            _ => assert_eq!(text(&out.stdout), "42", "{out:?}"),
        }
        farm.daemon("n2");
        for node in NODES {
            until("all nodes", || alive(farm, node) == NODES.len());
        }
    }
}

/// No process, record, control group or socket of theirs remains.
pub fn nothing_remains(farm: &Farm, before: &leaks::Survey) {
    for node in NODES {
        let left = "pgrep -a '^armento-'; pgrep -af '[a]rmento host'; find /sys/fs/cgroup -name 'armento-n*'; \
                    find /var/lib/armento/hosts /run/armento -name '*.json*' -o -type s ! -name control.sock; true";
        let mut last = String::new();
        let clean = || {
            last = farm.sh(node, left);
            last.is_empty()
        };
        let in_time = lab::within(lab::LONG, clean);
        assert!(in_time, "{node}: left: {last}");
    }
    let mut more = Vec::new();
    let same = || {
        more = leaks::grown(before, &leaks::node_survey(farm));
        more.is_empty()
    };
    let in_time = lab::within(lab::LONG, same);
    assert!(in_time, "{more:?}");
}

pub fn new_runs_work(farm: &Farm) {
    for (home, node) in [("n1", "n2"), ("n2", "n3"), ("n3", "n1")] {
        let run = format!("armento run --on {node} perl -e 'print 6 * 7'");
        assert_eq!(farm.sh(home, &run), "42");
    }
}

/// The state once programs have run on all nodes.
pub fn before(farm: &Farm) -> leaks::Survey {
    new_runs_work(farm);
    until("the end of those programs", || {
        NODES.iter().all(|n| hosts(farm, n).is_empty())
    });
    leaks::node_survey(farm)
}

pub fn programs_do_not_notice(farm: &Farm) {
    let before = before(farm);
    let load = Load::start(farm);
    kills_during_moves(farm, &load);
    kills_at_the_ends_of_a_move(farm, &load);
    hosts_are_adopted(farm, &load);
    one_keeper(farm, &load);
    load.ends_as_native();
    kills_during_host_start(farm);
    new_runs_work(farm);
    nothing_remains(farm, &before);
}
