//! How much of ours each node had, a little while ago.

use armento_gossip::Tick;
use armento_model::NodeName;
use std::collections::{BTreeMap, VecDeque};

/// A node counts an arrival before us, who hear of it from a keeper twice a second …
pub(crate) const EARLY_MS: u64 = 1000;
/// … and an end so much later: its host tells twice a second, and its samples follow once a second.
pub(crate) const LATE_MS: u64 = 2500;
/// How far back counts are remembered; older knowledge attracts nobody (`Policy::age_ms_max`).
const PAST_MS_MAX: u64 = 20_000;
/// … and at most this many changes.
const STEPS_MAX: usize = 1024;

/// Work of ours at each node after each change, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past(VecDeque<(Tick, BTreeMap<NodeName, u64>)>);

impl Past {
    /// What is so from `now` on.
    pub fn note(&mut self, ours: BTreeMap<NodeName, u64>, now: Tick) {
        match self.0.back_mut() {
            Some((_, last)) if *last == ours => return,
            Some((at, last)) if *at == now => *last = ours,
            _ => self.0.push_back((now, ours)),
        }
        // The newest step before the horizon says what was so at the horizon: it stays.
        let old = |past: &VecDeque<(Tick, _)>| {
            past.get(1)
                .is_some_and(|(at, _)| now.since(*at) > PAST_MS_MAX)
        };
        while self.0.len() > STEPS_MAX || old(&self.0) {
            self.0.pop_front();
        }
    }

    /// The least and the most work of ours that `node` may have counted when it spoke, `age_ms` ago.
    pub fn between(&self, node: &NodeName, age_ms: u64, now: Tick) -> (u64, u64) {
        let from = Tick(now.0.saturating_sub(age_ms + LATE_MS));
        let to = Tick(now.0.saturating_sub(age_ms)).plus(EARLY_MS);
        let at = |ours: &BTreeMap<NodeName, u64>| ours.get(node).copied().unwrap_or(0);
        let before = self.0.iter().rev().find(|(t, _)| *t <= from);
        let before = before.map_or(0, |(_, ours)| at(ours));
        let within = self.0.iter().filter(|(t, _)| *t > from && *t <= to);
        let wider = |(least, most): (u64, u64), n: u64| (least.min(n), most.max(n));
        within
            .map(|(_, ours)| at(ours))
            .fold((before, before), wider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(n: u64) -> BTreeMap<NodeName, u64> {
        BTreeMap::from([("n2".parse().unwrap(), n)])
    }

    #[test]
    fn all_within_the_lag_around_the_moment_counts() {
        let mut past = Past::default();
        for (t, n) in [(10_000, 100), (12_000, 300), (12_500, 200), (20_000, 0)] {
            past.note(ours(n), Tick(t));
        }
        let check = |age, want| {
            let got = past.between(&"n2".parse().unwrap(), age, Tick(20_000));
            assert_eq!(got, want, "{age} ms ago");
        };
        check(0, (0, 200));
        check(4_000, (200, 200));
        check(7_000, (100, 300));
        check(8_000, (0, 300));
        check(9_500, (0, 100));
        check(11_500, (0, 0));
    }

    #[test]
    fn the_past_is_bounded() {
        let mut past = Past::default();
        for t in 0..5000 {
            past.note(ours(t), Tick(t));
        }
        assert_eq!(past.0.len(), STEPS_MAX);
        past.note(ours(7), Tick(1_000_000));
        assert_eq!(past.0.len(), 2);
    }
}
