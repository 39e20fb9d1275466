//! How much of ours each node had, a little while ago.

use armento_gossip::Tick;
use armento_model::NodeName;
use std::collections::{HashMap, VecDeque};

/// A node counts an arrival before us, who hear of it from a keeper twice a second …
pub(crate) const EARLY_MS: u64 = 1000;
/// … and an end so much later: its host tells twice a second, and its samples follow once a second.
pub(crate) const LATE_MS: u64 = 2500;
/// How far back counts are remembered; older knowledge attracts nobody (`Policy::age_ms_max`).
pub(crate) const PAST_MS_MAX: u64 = 20_000;
/// … and at most this many changes.
const STEPS_MAX: usize = 1024;

/// … and when there are more, those within so long count as one: then they reach as far back as counts are remembered.
const STEP_MS_MIN: u64 = PAST_MS_MAX / STEPS_MAX as u64 + 1;

/// Steps, oldest first, with the nodes that changed in each; and for each node what was so from which step on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past(
    VecDeque<(Tick, Vec<NodeName>)>,
    HashMap<NodeName, VecDeque<(Tick, u64)>>,
);

impl Past {
    /// What is so from `now` on, of the nodes named; of others nothing has changed.
    pub fn note(&mut self, ours: impl IntoIterator<Item = (NodeName, u64)>, now: Tick) {
        for (node, n) in ours {
            self.change(node, n, now);
        }
        // The newest step before the horizon says what was so at the horizon: it stays.
        let old = |steps: &VecDeque<(Tick, _)>| {
            let next = steps.get(1);
            next.is_some_and(|(at, _)| now.since(*at) > PAST_MS_MAX)
        };
        while self.0.len() > STEPS_MAX || old(&self.0) {
            self.0.pop_front();
            self.begin_at_first();
        }
    }

    fn change(&mut self, node: NodeName, n: u64, now: Tick) {
        let history = self.1.get(&node);
        if history.and_then(|h| h.back()).map_or(0, |(_, last)| *last) == n {
            return;
        }
        let is_full = self.0.len() >= STEPS_MAX;
        let last = self.0.back().map(|(at, _)| *at);
        let within = |at: &Tick| *at == now || is_full && now.since(*at) < STEP_MS_MIN;
        let at = last.filter(within).unwrap_or_else(|| {
            self.0.push_back((now, Vec::new()));
            now
        });
        let history = self.1.entry(node.clone()).or_default();
        match history.back_mut() {
            Some((t, last)) if *t == at => *last = n,
            _ => {
                history.push_back((at, n));
                if let Some((_, nodes)) = self.0.back_mut() {
                    nodes.push(node);
                }
            }
        }
    }

    /// What was before the first step is no longer told apart.
    fn begin_at_first(&mut self) {
        let Some((first, nodes)) = self.0.front() else {
            return;
        };
        for node in nodes {
            let Some(history) = self.1.get_mut(node) else {
                continue;
            };
            while history.front().is_some_and(|(at, _)| at < first) {
                history.pop_front();
            }
            if history.len() == 1 && history[0].1 == 0 {
                self.1.remove(node);
            }
        }
    }

    /// The least and the most work of ours that `node` may have counted when it spoke, `age_ms` ago.
    pub fn between(&self, node: &NodeName, age_ms: u64, now: Tick) -> (u64, u64) {
        let Some(history) = self.1.get(node) else {
            return (0, 0);
        };
        let from = Tick(now.0.saturating_sub(age_ms + LATE_MS));
        let to = Tick(now.0.saturating_sub(age_ms)).plus(EARLY_MS);
        let before = history.iter().rev().find(|(t, _)| *t <= from);
        let before = before.map_or(0, |(_, n)| *n);
        let within = history.iter().filter(|(t, _)| *t > from && *t <= to);
        let wider = |(least, most): (u64, u64), n: u64| (least.min(n), most.max(n));
        within.map(|(_, n)| *n).fold((before, before), wider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
