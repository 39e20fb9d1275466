//! How far the clocks of two nodes are apart.
//!
//! Bodies read the time of day of their node and the times of files that home's kernel stamps: where the two
//! differ by more than a tick or two, make builds too much or too little. So whoever is further apart does not
//! host.
//!
//! PAPER: Cristian, Probabilistic clock synchronization, 1989: of several questions the one that was answered
//! quickest says best, to half of its round trip.

use crate::core::{Core, Node};
use crate::error::stays;
use crate::joining::offset::span;
use crate::members::{Standing, State};
use crate::peer::{PeerAnswer, PeerAsk};
use armento_client::api::{Refusal, node_note};
use armento_model::{NodeName, Stay};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Times of files are those of the last tick: 10 ms with HZ=100, once on each side.
pub(crate) const APART_MAX_NS: i64 = 20_000_000;
/// How long what was seen holds: a bad quartz goes 100 ppm wrong, 6 ms a minute.
const HOLDS: Duration = Duration::from_secs(60);
/// It is looked at again after this, so that who moves need not ask; and of all nodes one in so long.
const AGAIN: Duration = Duration::from_secs(45);
const BETWEEN: Duration = Duration::from_secs(5);
/// Apart is who was seen apart within this time: in a large farm it takes long until each was asked again.
const BELIEVED: Duration = Duration::from_secs(600);
/// Nodes whose clocks are named in one line.
const NAMED_MAX: usize = 4;
/// Questions at most, and a round trip so quick that no more are needed: the first may make a connection.
const ASKED_MAX: u32 = 4;
const QUICK_NS: i64 = 2_000_000;
/// An answer takes a millisecond; who is silent says by the question that follows why.
const ANSWER: Duration = Duration::from_secs(3);

/// The other clock is so far ahead of ours, give or take half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    trip_ns: i64,
    ahead_ns: i64,
}

impl Seen {
    /// Asked at `asked`, answered with `there`, heard at `heard`.
    fn new(asked: i64, there: i64, heard: i64) -> Seen {
        let trip_ns = (heard - asked).max(0);
        Seen {
            trip_ns,
            ahead_ns: there - (asked + trip_ns / 2),
        }
    }

    /// They are at least so far apart.
    fn apart_ns(self) -> i64 {
        (self.ahead_ns.abs() - self.trip_ns / 2).max(0)
    }
}

/// So many milliseconds ahead is the time of day that this daemon tells. Only tests set it: no namespace has a time of day
/// of its own (time_namespaces(7)).
const AHEAD: &str = "ARMENTO_CLOCK_AHEAD_MS";

pub fn realtime_ns() -> i64 {
    static AHEAD_NS: OnceLock<i64> = OnceLock::new();
    let said = || std::env::var(AHEAD).ok()?.parse::<i64>().ok();
    let ahead_ns = AHEAD_NS.get_or_init(|| said().unwrap_or(0).saturating_mul(1_000_000));
    // Before 1970 a clock is as wrong as it can be.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
    now_ns.saturating_add(*ahead_ns)
}

/// What was seen of another node's clock, in which life of that node, and when.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    life: u64,
    at: Instant,
    /// `None`: it did not answer.
    seen: Option<Seen>,
}

impl Known {
    /// So far ahead of ours, microseconds.
    pub fn ahead_us(&self) -> Option<i64> {
        self.seen.map(|s| s.ahead_ns / 1_000)
    }

    /// What was seen last says that nothing can move between the two.
    pub fn is_apart(&self) -> bool {
        self.seen.is_some_and(|s| s.apart_ns() > APART_MAX_NS) && self.at.elapsed() < BELIEVED
    }
}

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
    // Who does not answer is asked for a host next, and that tells why.
    match seen {
        Ok(Some(seen)) if seen.apart_ns() > APART_MAX_NS => Err(stays(
            subject,
            Stay::ClocksApart,
            &told(target, seen.ahead_ns / 1_000),
        )),
        _ => Ok(()),
    }
}

/// For people.
pub fn told(name: &NodeName, ahead_us: i64) -> String {
    let which = if ahead_us > 0 { "ahead" } else { "behind" };
    format!(
        "that of {name} is {} {which}, at most {} ms are good",
        span(ahead_us.saturating_mul(1_000)),
        APART_MAX_NS / 1_000_000
    )
}

/// Whose clock is looked at next: one that was not seen yet, else, not too often, the one that was seen longest ago.
fn next(core: &Core, quiet_for: Duration) -> Option<NodeName> {
    let up = core.members.values().filter(|m| m.is_up());
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
pub struct Watch {
    asking: Arc<AtomicBool>,
    asked: Option<Instant>,
    note: Option<String>,
}

impl Watch {
    /// Once a period.
    pub fn look(&mut self, node: &Arc<Node>) {
        self.tell(node);
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

    /// Commands that start programs find, beside the control socket, why none of them can leave.
    fn tell(&mut self, node: &Node) {
        let note = all_apart(&node.lock());
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

/// `None` unless there are others, and the clocks of all of them are apart from ours.
pub fn all_apart(core: &Core) -> Option<String> {
    let alive = core.members.values().filter(|m| m.state == State::Alive);
    let each = alive.map(|m| {
        let known = core.clocks.get(&m.known.name).filter(|k| k.is_apart())?;
        Some(told(&m.known.name, known.ahead_us()?))
    });
    // One who is near, or not known, is enough.
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
    let mut core = node.lock();
    let core = &mut *core;
    // As many as there are members.
    core.clocks.retain(|n, _| core.members.contains_key(n));
    let at = Instant::now();
    let known = Known { life, at, seen };
    let before = core.clocks.insert(target.clone(), known);
    let was = before.is_some_and(|b| b.is_apart());
    if let Some(ahead_us) = known.ahead_us() {
        match (was, known.is_apart()) {
            (false, true) => tracing::warn!(
                "the clocks are apart, nothing moves between the two: {}",
                told(target, ahead_us)
            ),
            (true, false) => tracing::info!("the clock of {target} agrees with ours again"),
            _ => {}
        }
    }
    seen
}

fn look(node: &Node, target: &NodeName) -> Option<Seen> {
    let addr = node.lock().addr_of(target)?;
    let mut best = None;
    for _ in 0..ASKED_MAX {
        let asked = realtime_ns();
        let answer = node
            .lines
            .call(node, (target, addr), &PeerAsk::Clock, ANSWER);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_apart() {
        let ms = 1_000_000;
        let check = |asked: i64, there: i64, heard: i64, want: i64| {
            let seen = Seen::new(asked * ms, there * ms, heard * ms);
            assert_eq!(seen.apart_ns(), want * ms, "{asked} {there} {heard}");
        };
        check(1000, 1001, 1002, 0);
        check(1000, 1031, 1002, 29);
        check(1000, 971, 1002, 29);
        // A slow answer says little.
        check(1000, 1051, 1100, 0);
        check(1000, 1131, 1100, 31);
    }
}
