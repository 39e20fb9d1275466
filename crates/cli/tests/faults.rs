//! One side of a move is killed, or frozen for a while, at every phase. In every case a program runs once: it ends with
//! everything that a native run writes, or dies and has written a beginning of that.
//!
//! The failpoints are those of `migrate/src/phase.rs`. Freezing takes minutes: `make test-all`. To test one failpoint
//! alone: `ARMENTO_FAULT_POINT`.

mod lab;

use armento_migrate::phase::{Failpoint, Phase, Side};
use lab::{Farm, until};

/// Appends a line after some computing, about a second and a half in all; memory of some megabytes.
const PROGRAM: &str = r#"use IO::Handle; open(F, ">>", $ARGV[0]); F->autoflush(1);
 for ($k = 0; $k < 60000; $k++) { $m[$k] = $k . "x" }
 for ($i = 1; $i <= 60; $i++) { $x = 0; for ($j = 0; $j < 200000; $j++) { $x += $j % 7; $m[$j % 60000] = $i }
 print F "$i $x $m[$i * 7]\n" } print F "end\n""#;

fn bodies(farm: &Farm) -> usize {
    let count = |n| {
        farm.sh(n, "pgrep -c '^perl$' || true")
            .trim()
            .parse::<usize>()
    };
    ["n1", "n2", "n3"]
        .map(|n| count(n).expect("a number"))
        .iter()
        .sum()
}

/// Where programs are started.
const HOME: &str = "n1";

/// A failpoint, and the node that reaches it.
type Point = (Failpoint, &'static str);

/// From node to node: how the program is started, and where it is sent.
struct Way {
    start: &'static str,
    to: &'static str,
    source: &'static str,
    target: &'static str,
}

/// From home, between two nodes, and back home.
const WAYS: [Way; 3] = [
    Way {
        start: "--stay",
        to: "n2",
        source: HOME,
        target: "n2",
    },
    Way {
        start: "--on n2",
        to: "n3",
        source: "n2",
        target: "n3",
    },
    Way {
        start: "--on n2",
        to: "home",
        source: "n2",
        target: HOME,
    },
];

/// Failpoints next to others of their phase, which only the campaign sets (`armento conform --faults`); and those that
/// only a program passes which writes faster than the link carries.
const LEFT_TO_CAMPAIGN: [Failpoint; 16] = [
    Failpoint::HomeLeaving,
    Failpoint::HomeLinked,
    Failpoint::SourceRound,
    Failpoint::SourceGivenUp,
    Failpoint::HomeFreezing,
    Failpoint::HomeLooked,
    Failpoint::HomeHalting,
    Failpoint::HomeSurveyed,
    Failpoint::HomeRead,
    Failpoint::HostFreezing,
    Failpoint::HostCaptured,
    Failpoint::SourceCopied,
    Failpoint::TargetFilled,
    Failpoint::HostSet,
    Failpoint::HostThreads,
    Failpoint::SourceSweeping,
];

impl Way {
    /// The node whose keeper or host passes the failpoint.
    fn node_of(&self, point: Failpoint) -> Option<&'static str> {
        point.phase()?;
        let node = match point.side() {
            Side::Source => self.source,
            Side::Target => self.target,
            Side::Home if self.source == HOME || self.target == HOME => return None,
            Side::Home => HOME,
        };
        let passed = match node {
            HOME => point.program().is_keeper(),
            _ => point.program().is_host(),
        };
        passed.then_some(node)
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let tested = Failpoint::ALL
            .iter()
            .filter(|p| !LEFT_TO_CAMPAIGN.contains(p));
        tested.filter_map(|p| Some((*p, self.node_of(*p)?)))
    }
}

#[test]
fn every_phase_before_post_copy_has_a_tested_failpoint() {
    let tested: Vec<Phase> = WAYS
        .iter()
        .flat_map(Way::points)
        .filter_map(|(p, _)| p.phase())
        .collect();
    for phase in Phase::ALL.iter().filter(|p| **p != Phase::Postcopy) {
        assert!(tested.contains(phase), "{}", phase.name());
    }
}

/// Moves a program one way with `fault` set at the failpoint `point`; returns what is wrong with the program's end.
fn attempt(farm: &Farm, way: &Way, point: Point, fault: &str, native: &str) -> Option<String> {
    let Way { start, to, .. } = way;
    launch(farm, start, PROGRAM);
    let (name, node) = (point.0.name(), point.1);
    set_failpoint(farm, point, fault);
    let moved = farm.run(
        "n1",
        &format!("timeout 60 armento migrate $(cat /tmp/pid) {to}"),
    );
    let ended = || farm.run("n1", "test -s /tmp/end").status.success();
    until(
        &format!("the program's end ({start} to {to}, {fault} at {name})"),
        ended,
    );
    let hit = reached(farm, point);
    farm.sh(node, &format!("rm -f /tmp/faults/{name}"));
    until("the end of every body", || bodies(farm) == 0);
    let status = farm.sh("n1", "cat /tmp/end");
    let text = farm.sh("n1", "cat /tmp/out");
    let fine = match status.trim() {
        "0" => text == native,
        // A side that is gone, or frozen for longer than the others wait, may end the program.
        "137" => fault != "freeze 1" && native.starts_with(&text),
        _ => false,
    };
    let wrong = if !hit {
        "the failpoint was not reached"
    } else if !fine {
        "wrong"
    } else {
        return None;
    };
    Some(format!(
        "{start} to {to}, {fault} at {name} on {node}: {wrong}: ended with {}, {} of {} lines, last {:?}; migrate: {moved:?}",
        status.trim(),
        text.lines().count(),
        native.lines().count(),
        text.lines().last()
    ))
}

/// Starts [`PROGRAM`] with so many lines at n1, with failpoints enabled; returns when it has begun.
fn launch(farm: &Farm, start: &str, program: &str) {
    // The shell's process becomes the program.
    let script = format!(
        "rm -f /tmp/end /tmp/out /tmp/keeper.log; \
         (export ARMENTO_FAULTS=/tmp/faults ARMENTO_KEEPER_LOG=/tmp/keeper.log; \
         sh -c 'echo $$ > /tmp/pid; exec \"$0\" \"$@\"' armento run {start} perl -e '{program}' /tmp/out; \
         echo $? > /tmp/end) >/tmp/says 2>&1 &"
    );
    farm.sh("n1", &script);
    let begun = || {
        farm.run("n1", "test $(wc -l < /tmp/out) -ge 8")
            .status
            .success()
    };
    until("the program's first lines", begun);
    let at = if start == "--stay" { "n1" } else { "n2" };
    let there = format!("armento ps --json | grep -q '\"place\": *\"{at}\"'");
    until("the place where it begins", || {
        farm.run("n1", &there).status.success()
    });
}

/// Creates the failpoint's file atomically: a running program may read it at once.
fn set_failpoint(farm: &Farm, (point, node): Point, fault: &str) {
    let name = point.name();
    farm.sh(
        node,
        &format!(
            "echo '{fault}' > /tmp/planted && chmod 666 /tmp/planted && mv /tmp/planted /tmp/faults/{name}"
        ),
    );
}

/// Whether a process reached the failpoint that was set there.
fn reached(farm: &Farm, (point, node): Point) -> bool {
    let test = format!("test -e /tmp/faults/{}", point.name());
    !farm.run(node, &test).status.success()
}

fn campaign(what: &str, ways: &[usize], fault: &str) {
    let Some(farm) = Farm::up(what, None) else {
        return;
    };
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}' /dev/stdout"));
    let mut wrong = Vec::new();
    for way in ways.iter().map(|w| &WAYS[*w]) {
        let only = std::env::var("ARMENTO_FAULT_POINT").ok();
        for point in way
            .points()
            .filter(|p| only.as_ref().is_none_or(|o| o == p.0.name()))
        {
            wrong.extend(attempt(&farm, way, point, fault, &native));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kill_while_leaving_home_never_runs_program_twice() {
    campaign("out", &[0], "kill");
}

#[test]
fn kill_between_nodes_or_going_home_never_runs_program_twice() {
    campaign("on", &[1, 2], "kill");
}

#[test]
fn one_second_stall_at_any_phase_is_survived() {
    if !lab::long() {
        return;
    }
    campaign("freeze", &[0, 1, 2], "freeze 1");
}

#[test]
fn stall_beyond_home_timeout_never_runs_program_twice() {
    if !lab::long() {
        return;
    }
    campaign("long", &[0, 1, 2], "freeze 6");
}

/// [`PROGRAM`] for some ten seconds.
fn longer() -> String {
    PROGRAM.replace("<= 60;", "<= 400;")
}

/// Waits for the program's end; its output must be that of a native run.
fn assert_output_is_native(farm: &Farm, program: &str) {
    until("the program's end", || {
        farm.run("n1", "test -s /tmp/end").status.success()
    });
    let native = farm.sh("n1", &format!("perl -e '{program}' /dev/stdout"));
    let (end, out) = (farm.sh("n1", "cat /tmp/end"), farm.sh("n1", "cat /tmp/out"));
    let same = out.lines().zip(native.lines()).take_while(|(a, b)| a == b);
    let same = same.count();
    assert!(
        end.trim() == "0" && out == native,
        "ended with {end}, {same} lines of {} are right; then {:?}; {}",
        native.lines().count(),
        out.lines().nth(same),
        farm.sh("n1", "cat /tmp/says /tmp/keeper.log")
    );
}

#[test]
fn abandoned_source_does_not_disturb_the_next_move() {
    let Some(farm) = Farm::up("late", None) else {
        return;
    };
    let program = longer();
    launch(&farm, "--on n2", &program);
    // The source is about to freeze the process when its target is lost, …
    let late = (Failpoint::HostFreezing, "n2");
    set_failpoint(&farm, late, "stall 3");
    farm.sh(
        "n1",
        "armento migrate $(cat /tmp/pid) n3 >/tmp/first 2>&1 &",
    );
    until("the stalled source", || reached(&farm, late));
    farm.sh("n3", "for d in /tmp/faults/*/; do echo kill > $d/any; done");
    until("the end of its move", || {
        farm.run("n1", "test -s /tmp/first").status.success()
    });
    // … and resumes while the next move has the process frozen.
    set_failpoint(&farm, (Failpoint::HostCaptured, "n2"), "stall 4");
    farm.sh("n1", "armento migrate $(cat /tmp/pid) home");
    assert!(reached(&farm, (Failpoint::HostCaptured, "n2")));
    assert_output_is_native(&farm, &program);
}

#[test]
fn abandoned_target_does_not_disturb_the_next_move() {
    if !lab::long() {
        return;
    }
    let Some(farm) = Farm::up("later", None) else {
        return;
    };
    let program = longer();
    launch(&farm, "--stay", &program);
    // Home waits for 20 s (`READY_MAX`).
    let late = (Failpoint::TargetFilled, "n2");
    set_failpoint(&farm, late, "stall 21.5");
    let first = farm.run("n1", "armento migrate $(cat /tmp/pid) n2");
    assert!(!first.status.success() && reached(&farm, late), "{first:?}");
    // The next target is complete when the first one resumes.
    farm.sh("n1", "sleep 0.3");
    set_failpoint(&farm, (Failpoint::TargetBuilt, "n2"), "stall 4");
    farm.sh("n1", "armento migrate $(cat /tmp/pid) n2");
    assert!(reached(&farm, (Failpoint::TargetBuilt, "n2")));
    assert_output_is_native(&farm, &program);
}

#[test]
fn child_forked_after_host_loss_ends() {
    let Some(farm) = Farm::up("born", None) else {
        return;
    };
    // Its parent stays at home, and with it the keeper.
    let script = "export ARMENTO_FAULTS=/tmp/faults; rm -f /tmp/end; (armento run --stay sh -c \
        'perl -e \"while (1) { fork or exit; wait }\" & echo $! > /tmp/pid; wait; sleep 12'; echo $? > /tmp/end) >/tmp/says 2>&1 &
        until test -s /tmp/pid; do sleep 0.1; done";
    farm.sh("n1", script);
    let away = || {
        farm.run("n1", "armento migrate $(cat /tmp/pid) n2")
            .status
            .success()
    };
    until("its move to n2", away);
    let born = (Failpoint::HomeBorn, "n1");
    // Longer than home waits for its host.
    set_failpoint(&farm, born, "stall 8");
    until("a child", || reached(&farm, born));
    farm.sh("n2", "for d in /tmp/faults/*/; do echo kill > $d/any; done");
    // The loss is noticed when the stall is over.
    farm.sh("n1", "sleep 9");
    until("the end of the child", || {
        !farm.run("n1", "pgrep -x perl").status.success()
    });
    until("its parent's end", || {
        farm.run("n1", "test -s /tmp/end").status.success()
    });
    assert_eq!(bodies(&farm), 0);
}

/// The program maps a file shared that it never touches (as glibc does with its cache of character sets), in a
/// directory that it may not write to.
#[test]
fn process_with_lost_target_still_returns_home() {
    let Some(farm) = Farm::up("back", None) else {
        return;
    };
    let program = "python3 -c 'import mmap, time; f = open(\"/usr/bin/env\"); \
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); time.sleep(600)'";
    let start = format!("armento run --on n2 {program} >/tmp/says 2>&1 & echo $!");
    let pid = farm.sh("n1", &start);
    let pid = pid.trim();
    let there = "armento ps --json | grep -q '\"place\": *\"n2\"'";
    until("its arrival", || farm.run("n1", there).status.success());
    let lost = (Failpoint::TargetLaidOut, "n3");
    set_failpoint(&farm, lost, "kill");
    // A process that has only just started may refuse to move.
    until("the loss of the target", || {
        let on = farm.run("n1", &format!("armento migrate {pid} n3"));
        assert!(!on.status.success(), "{on:?}");
        reached(&farm, lost)
    });
    // On failure, show the program's own output.
    farm.sh(
        "n1",
        &format!("armento migrate {pid} home && kill {pid} || {{ cat /tmp/says; exit 1; }}"),
    );
}
