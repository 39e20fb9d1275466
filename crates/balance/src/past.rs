//! How much of ours each node had, a little while ago.

use armento_gossip::Tick;
use armento_model::NodeName;
use std::collections::{BTreeMap, VecDeque};

/// A node may count an arrival or an end this much earlier or later than we do: half a second
/// between reports of keepers and hosts, and as much between its samples.
pub(crate) const LAG_MS: u64 = 1000;
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

    /// The most work of ours that `node` may have counted when it spoke, `age_ms` ago. Too much
    /// makes it look emptier than it is, which its admission corrects; too little would count our
    /// own work as another's and send us away from it.
    pub fn most(&self, node: &NodeName, age_ms: u64, now: Tick) -> u64 {
        let from = Tick(now.0.saturating_sub(age_ms + LAG_MS));
        let to = Tick(now.0.saturating_sub(age_ms)).plus(LAG_MS);
        let at = |ours: &BTreeMap<NodeName, u64>| ours.get(node).copied().unwrap_or(0);
        let before = self
            .0
            .iter()
            .rev()
            .find(|(t, _)| *t <= from)
            .map_or(0, |(_, ours)| at(ours));
        let within = self
            .0
            .iter()
            .filter(|(t, _)| *t > from && *t <= to)
            .map(|(_, ours)| at(ours));
        within.fold(before, u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(n: u64) -> BTreeMap<NodeName, u64> {
        BTreeMap::from([("n2".parse().unwrap(), n)])
    }

    #[test]
    fn the_most_within_the_lag_around_the_moment_counts() {
        let mut past = Past::default();
        for (t, n) in [(10_000, 100), (12_000, 300), (12_500, 200), (20_000, 0)] {
            past.note(ours(n), Tick(t));
        }
        let check = |age, want| {
            let got = past.most(&"n2".parse().unwrap(), age, Tick(20_000));
            assert_eq!(got, want, "{age} ms ago");
        };
        check(0, 200);
        check(4_000, 200);
        check(7_000, 300);
        check(8_000, 300);
        check(9_500, 100);
        check(11_500, 0);
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
