//! `--storm MS`, the hardest test: every process of the tree goes to a random node, home among them, every so many
//! milliseconds.
//!
//! With `--storm-call` only those at home: the others move at their calls (`keeper/src/state/call_storm.rs`).

use crate::hosts::{lose_together, sharers};
use crate::lifecycle::scan_children;
use crate::safe::watch_checkpoints;
use crate::state::{CallStorm, Keep, Task, Why};
use crate::storm_targets::{Dice, destination};
use armento_client::api::{Answer, Ask, Dest};
use armento_model::{HomePid, NodeName, Pid};
use armento_wire::talk::ToHost;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a storm leaves at home a process that a call has brought there: long enough to make it.
const HOLD: Duration = Duration::from_millis(60);
const HOLD_OF_CALLS: Duration = Duration::from_millis(3);

/// `None`: there is no storm.
pub fn hold(keep: &Keep) -> Option<Duration> {
    match (&keep.storm_call, keep.settings.storm) {
        (Some(_), _) => Some(HOLD_OF_CALLS),
        (None, storm) => storm.map(|_| HOLD),
    }
}

pub fn run_storm(keep: &Arc<Keep>, every: Duration, seed: u64) {
    let mut dice = Dice(seed);
    let mut nodes: Vec<NodeName> = Vec::new();
    let mut asked: Option<Instant> = None;
    loop {
        std::thread::sleep(every);
        if asked.is_none_or(|t| t.elapsed() > Duration::from_secs(5)) {
            let known = self::nodes(keep);
            if !known.is_empty() {
                nodes = known;
                if let Some(calls) = &keep.storm_call {
                    calls.know(&nodes);
                }
            }
            asked = Some(Instant::now());
        }
        if nodes.is_empty() || keep.move_queue.len() > 0 {
            continue;
        }
        if keep.tracer.run(scan_children).is_none() {
            return;
        }
        let away = |pid| keep.storm_call.is_some() && keep.deputy(pid).is_some();
        for pid in keep.pids().into_iter().filter(|p| !away(*p)) {
            let node = match &keep.storm_call {
                Some(calls) => calls.start(|| self::nodes(keep)),
                None => Some(nodes[dice.roll(nodes.len())].clone()),
            };
            let Some(node) = node else { continue };
            keep.move_queue.push(Task {
                pid,
                to: destination(&keep.settings.node, node),
                why: Why::Storm,
            });
        }
    }
}

/// `--storm-loss MS`: the hardest test of `--safe`. The host is told to throw the body away, and home does what it does
/// when the node of a body is lost; a process that has no body, or could not go on, moves to a random node.
pub fn run_loss_storm(keep: &Arc<Keep>, every: Duration, seed: u64) {
    let mut dice = Dice(seed);
    let mut known: Vec<NodeName> = Vec::new();
    loop {
        std::thread::sleep(every);
        if known.is_empty() {
            known = nodes(keep);
        }
        if known.is_empty() || keep.move_queue.len() > 0 {
            continue;
        }
        let seen = keep.tracer.run(|t| {
            scan_children(t);
            watch_checkpoints(t);
        });
        if seen.is_none() {
            return;
        }
        for pid in keep.pids() {
            let node = known[dice.roll(known.len())].clone();
            let to = destination(&keep.settings.node, node);
            if keep.deputy(pid).is_some() {
                lose_body(keep, pid, &to);
            } else if to != Dest::Home {
                let why = Why::Storm;
                keep.move_queue.push(Task { pid, to, why });
            }
        }
    }
}

fn lose_body(keep: &Keep, pid: Pid, to: &Dest) {
    let Ok(_turn) = keep.move_locks.take(pid) else {
        return;
    };
    let to = to.clone();
    keep.tracer.run(move |t| {
        let Some(link) = t.procs.get(&pid).and_then(|p| p.link().cloned()) else {
            return;
        };
        let safe = |p: &Pid| {
            let p = t.procs.get(p).filter(|p| !p.replays());
            p.and_then(|p| p.safe.as_ref())
                .is_some_and(|s| s.recoverable().is_ok() && !s.is_recovering())
        };
        if !sharers(t, &link, pid).iter().all(safe) {
            return;
        }
        link.send(&ToHost::Kill {
            pid: HomePid::of_home(pid),
        });
        lose_together(t, &link, pid, &to);
    });
}

/// The nodes that are up, in order of their names; none when the daemon does not say.
pub fn nodes(keep: &Keep) -> Vec<NodeName> {
    let Ok(Answer::Nodes { nodes }) = keep.daemon.ask(Ask::Nodes, Duration::from_secs(2)) else {
        return Vec::new();
    };
    let alive = nodes.into_iter().filter(|n| n.state == "alive");
    let mut names: Vec<NodeName> = alive.map(|n| n.name).collect();
    names.sort();
    names
}

/// `--storm-call`: a process has come home by it and goes on to another node.
pub fn out_again(keep: &Keep, calls: &CallStorm, pid: Pid) {
    if let Some(node) = calls.start(|| nodes(keep)) {
        keep.move_queue.push(Task {
            pid,
            to: Dest::Node(node),
            why: Why::Storm,
        });
    }
}
