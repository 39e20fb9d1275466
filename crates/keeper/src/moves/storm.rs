//! `--storm MS`: the honest test of everything. Every process of the tree goes to a random node, home
//! among them, every so many milliseconds. With `--storm-call` those at home only: the others move at their calls
//! (`storm_call.rs`).

use crate::moves::run::{Task, Why};
use crate::state::keeper::Keep;
use armento_client::api::{Answer, Ask, Dest};
use armento_model::NodeName;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a storm leaves at home whom a call has brought there: long enough to make it.
const HOLD: Duration = Duration::from_millis(60);
const HOLD_OF_CALLS: Duration = Duration::from_millis(3);

/// `None`: there is no storm.
pub fn hold(keep: &Keep) -> Option<Duration> {
    match (&keep.storm_call, keep.settings.storm) {
        (Some(_), _) => Some(HOLD_OF_CALLS),
        (None, storm) => storm.then_some(HOLD),
    }
}

/// KERNEL-independent small generator (splitmix64), so that a seed repeats a storm.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

pub fn run(keep: &Arc<Keep>, every: Duration, seed: u64) {
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
        if nodes.is_empty() || keep.tasks.len() > 0 {
            continue;
        }
        if keep.hand.run(|t| t.scan()).is_none() {
            return;
        }
        let away = |pid| keep.storm_call.is_some() && keep.deputy(pid).is_some();
        for pid in keep.pids().into_iter().filter(|p| !away(*p)) {
            let node = match &keep.storm_call {
                Some(calls) => calls.start(keep),
                None => Some(nodes[dice.roll(nodes.len())].clone()),
            };
            let Some(node) = node else { continue };
            keep.tasks.push(Task {
                pid,
                to: destination(keep, node),
                why: Why::Storm,
            });
        }
    }
}

/// The nodes that are up, in order of their names; none when the daemon does not say.
pub fn nodes(keep: &Keep) -> Vec<NodeName> {
    let Ok(Answer::Nodes { nodes }) = keep.control.ask(Ask::Nodes, Duration::from_secs(2)) else {
        return Vec::new();
    };
    let alive = nodes.into_iter().filter(|n| n.state == "alive");
    let mut names: Vec<NodeName> = alive.map(|n| n.name).collect();
    names.sort();
    names
}

pub fn destination(keep: &Keep, node: NodeName) -> Dest {
    if node == keep.settings.node {
        Dest::Home
    } else {
        Dest::Node(node)
    }
}
