//! How far the clocks of two nodes are apart, asked of the other one.
//!
//! A guest reads the time of day of the node where it runs, and times of files that home's kernel stamps: where the two
//! differ by more than a tick or two, make builds too much or too little. So a node whose clock is further away takes no
//! guest of ours.

use crate::clock::{APART_MAX_NS, Known, Seen, clock_note, realtime_ns};
use crate::error::stays;
use crate::peer::{PeerAnswer, PeerAsk};
use crate::state::{Core, Node, Standing, State};
use armento_client::api::{Refusal, node_note};
use armento_model::{NodeName, Stay};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long an answer holds: a bad quartz goes 100 ppm wrong, 6 ms a minute.
const HOLDS: Duration = Duration::from_secs(60);
/// A clock is looked at again after this, so that a move need not ask; and one of all in so long.
const AGAIN: Duration = Duration::from_secs(45);
const BETWEEN: Duration = Duration::from_secs(5);
/// Nodes whose clocks are named in one line.
const NAMED_MAX: usize = 4;
/// Questions at most, and a round trip so quick that no more are needed: the first may make a connection.
const ASKED_MAX: u32 = 4;
const QUICK_NS: i64 = 2_000_000;
/// An answer takes a millisecond; the question that follows tells why a node is silent.
const ANSWER: Duration = Duration::from_secs(3);

/// Refuses when the clock of `target` is certainly too far from ours.
pub async fn near(node: &Arc<Node>, subject: &str, target: &NodeName) -> Result<(), Refusal> {
    {
        let core = node.lock();
        let life = core.members.get(target).map_or(0, |m| m.boot);
        let fresh = core.clocks.get(target).is_some_and(|k| {
            k.life == life && k.at.elapsed() < HOLDS && k.seen.is_some() && !k.is_apart()
        });
        if fresh {
            return Ok(());
        }
    }
    let (n, to) = (node.clone(), target.clone());
    let seen = tokio::task::spawn_blocking(move || measure(&n, &to)).await;
    // A node that does not answer is asked for a host next, and that tells why.
    match seen {
        Ok(Some(seen)) if seen.apart_ns() > APART_MAX_NS => Err(stays(
            subject,
            Stay::ClocksApart,
            &clock_note(target, seen.ahead_ns / 1_000),
        )),
        _ => Ok(()),
    }
}

/// The node whose clock is asked next: one that was not asked yet, else, not too often, the one asked longest ago.
fn next(core: &Core, quiet_for: Duration) -> Option<NodeName> {
    let up = core.members.up();
    let seen = |m: &Standing| {
        let known = core.clocks.get(&m.known.name)?;
        (known.life == m.boot).then(|| known.at.elapsed())
    };
    let (standing, age) = up
        .map(|m| (m, seen(m).unwrap_or(Duration::MAX)))
        .max_by_key(|(_, age)| *age)?;
    let due = age == Duration::MAX || (age >= AGAIN && quiet_for >= BETWEEN);
    due.then(|| standing.known.name.clone())
}

/// Keeps what is known of the others' clocks fresh, one question at a time.
#[derive(Debug, Default)]
pub struct ClockWatch {
    asking: Arc<AtomicBool>,
    asked: Option<Instant>,
    note: Option<String>,
}

impl ClockWatch {
    /// Once a period.
    pub fn look(&mut self, node: &Arc<Node>) {
        self.write_note(node);
        let quiet_for = self.asked.map_or(Duration::MAX, |at| at.elapsed());
        let Some(name) = next(&node.lock(), quiet_for) else {
            return;
        };
        if self.asking.swap(true, Ordering::AcqRel) {
            return;
        }
        self.asked = Some(Instant::now());
        let (node, asking) = (node.clone(), self.asking.clone());
        tokio::task::spawn_blocking(move || {
            measure(&node, &name);
            asking.store(false, Ordering::Release);
        });
    }

    /// Writes, beside the control socket, why no program can leave; commands that start programs read it.
    fn write_note(&mut self, node: &Node) {
        let note = all_clocks_apart(&node.lock());
        if note == self.note {
            return;
        }
        let path = node_note(&node.config.socket_path());
        let said = match &note {
            Some(note) => std::fs::write(&path, note),
            None => std::fs::remove_file(&path),
        };
        if let Err(e) = said
            && e.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{}: {e}", path.display());
        }
        self.note = note;
    }
}

/// A notice when there are other nodes and the clocks of all of them are too far from ours.
pub fn all_clocks_apart(core: &Core) -> Option<String> {
    let alive = core.members.iter().filter(|m| m.state == State::Alive);
    let each = alive.map(|m| {
        let known = core.clocks.get(&m.known.name).filter(|k| k.is_apart())?;
        Some(clock_note(&m.known.name, known.ahead_us()?))
    });
    // One that is near, or not known, is enough.
    let mut all: Vec<String> = each.collect::<Option<_>>()?;
    let more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// Asks, and keeps the answer.
fn measure(node: &Node, target: &NodeName) -> Option<Seen> {
    let life = node.lock().members.get(target)?.boot;
    let seen = look(node, target);
    let rtt_us = node.connections.rtt_us(target);
    let mut core = node.lock();
    let core = &mut *core;
    // As many as there are members.
    core.clocks.retain(|n, _| core.members.contains(n));
    let at = Instant::now();
    let known = Known {
        life,
        at,
        seen,
        rtt_us,
    };
    let before = core.clocks.insert(target.clone(), known);
    let rtts = core.clocks.iter();
    let rtts = rtts.filter_map(|(name, k)| Some((name.clone(), k.rtt_us?)));
    core.ledger.round_trips(rtts.collect());
    let was = before.is_some_and(|b| b.is_apart());
    if let Some(ahead_us) = known.ahead_us() {
        match (was, known.is_apart()) {
            (false, true) => tracing::warn!(
                "the clocks are apart, nothing moves between the two: {}",
                clock_note(target, ahead_us)
            ),
            (true, false) => tracing::info!("the clock of {target} agrees with ours again"),
            _ => {}
        }
    }
    seen
}

fn look(node: &Node, target: &NodeName) -> Option<Seen> {
    let addr = node.lock().members.addr_of(target)?;
    let mut best = None;
    for _ in 0..ASKED_MAX {
        let asked = realtime_ns();
        let answer = node.call((target, addr), &PeerAsk::Clock, ANSWER);
        let Ok(PeerAnswer::Clock { realtime_ns: there }) = answer else {
            return best;
        };
        let seen = Seen::new(asked, there, realtime_ns());
        best = best.map_or(Some(seen), |b: Seen| Some(b.min(seen)));
        if seen.trip_ns < QUICK_NS {
            break;
        }
    }
    best
}
