//! How far the clocks of two nodes are apart.
//!
//! Bodies read the time of day of their node and the times of files that home's kernel stamps: where the two
//! differ by more than a tick or two, make builds too much or too little. So whoever is further apart does not
//! host.
//!
//! PAPER: Cristian, Probabilistic clock synchronization, 1989: of several questions the one that was answered
//! quickest says best, to half of its round trip.

use crate::core::Node;
use crate::error::stays;
use crate::peer::{PeerAnswer, PeerAsk};
use armento_client::api::Refusal;
use armento_model::{NodeName, Stay};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Times of files are those of the last tick: 10 ms with HZ=100, once on each side.
pub(crate) const APART_MAX_NS: i64 = 20_000_000;
/// How long what was seen holds: a bad quartz goes 100 ppm wrong, 6 ms a minute.
const HOLDS: Duration = Duration::from_secs(60);
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

/// Refuses when the clock of `target` is certainly too far from ours.
pub async fn near(node: &Arc<Node>, subject: &str, target: &NodeName) -> Result<(), Refusal> {
    let life = {
        let core = node.lock();
        let life = core.members.get(target).map_or(0, |m| m.boot);
        let near = core.clocks_near.get(target);
        if near.is_some_and(|(l, at)| *l == life && at.elapsed() < HOLDS) {
            return Ok(());
        }
        life
    };
    let (n, to) = (node.clone(), target.clone());
    let seen = tokio::task::spawn_blocking(move || look(&n, &to)).await;
    // Who does not answer is asked for a host next, and that tells why.
    let Ok(Some(seen)) = seen else {
        return Ok(());
    };
    if seen.apart_ns() > APART_MAX_NS {
        let which = format!(
            "{target} by {} ms, at most {} are good",
            seen.ahead_ns.abs() / 1_000_000,
            APART_MAX_NS / 1_000_000
        );
        return Err(stays(subject, Stay::ClocksApart, &which));
    }
    let mut core = node.lock();
    let core = &mut *core;
    // As many as there are members.
    core.clocks_near.retain(|n, _| core.members.contains_key(n));
    let now = (life, Instant::now());
    core.clocks_near.insert(target.clone(), now);
    Ok(())
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
