//! History of this home's work on each node.

use armento_gossip::Tick;
use armento_model::NodeName;
use std::collections::{HashMap, VecDeque};

/// A node counts an arrival this much before home, to which a keeper reports twice a second …
pub(crate) const EARLY_MS: u64 = 1000;
/// … and an end this much later: its host reports twice a second, and its samples follow once a second.
pub(crate) const LATE_MS: u64 = 2500;
/// Length of the history; older load data is not used to choose a target (`Policy::age_ms_max`).
pub(crate) const PAST_MS_MAX: u64 = 20_000;
/// Limit of stored steps.
const STEPS_MAX: usize = 1024;

/// Changes within this time are merged into one step, so that the steps cover the whole history.
const STEP_MS_MIN: u64 = PAST_MS_MAX / STEPS_MAX as u64 + 1;

/// The change at a node in one step.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: Tick,
    /// Work that arrived and work that left, separately: when one process arrives and another leaves, the node may have
    /// counted both for a while, or neither.
    came: u64,
    went: u64,
    /// The work that was there from then on.
    left: u64,
}

/// Steps, oldest first, with the nodes that changed in each; and for each node its changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past(
    VecDeque<(Tick, Vec<NodeName>)>,
    HashMap<NodeName, VecDeque<Change>>,
);

impl Past {
    /// Records the work from `now` on, for the nodes named; the others are unchanged.
    pub fn note(&mut self, ours: impl IntoIterator<Item = (NodeName, u64)>, now: Tick) {
        for (node, n) in ours {
            self.change(node, n, now);
        }
        // The newest step before the horizon gives the value at the horizon, so it is kept.
        let old = |steps: &VecDeque<(Tick, _)>| {
            let next = steps.get(1);
            next.is_some_and(|(at, _)| now.since(*at) > PAST_MS_MAX)
        };
        while self.0.len() > STEPS_MAX || old(&self.0) {
            self.0.pop_front();
            self.begin_at_first();
        }
    }

    fn change(&mut self, node: NodeName, left: u64, now: Tick) {
        let history = self.1.get(&node);
        let before = history.and_then(|h| h.back()).map_or(0, |last| last.left);
        if before == left {
            return;
        }
        let is_full = self.0.len() >= STEPS_MAX;
        let last = self.0.back().map(|(at, _)| *at);
        let within = |at: &Tick| *at == now || is_full && now.since(*at) < STEP_MS_MIN;
        let at = last.filter(within).unwrap_or_else(|| {
            self.0.push_back((now, Vec::new()));
            now
        });
        let (came, went) = (left.saturating_sub(before), before.saturating_sub(left));
        let history = self.1.entry(node.clone()).or_default();
        match history.back_mut() {
            Some(last) if last.at == at => {
                last.came += came;
                last.went += went;
                last.left = left;
            }
            _ => {
                history.push_back(Change {
                    at,
                    came,
                    went,
                    left,
                });
                if let Some((_, nodes)) = self.0.back_mut() {
                    nodes.push(node);
                }
            }
        }
    }

    /// Forgets differences before the first step.
    fn begin_at_first(&mut self) {
        let Some((first, nodes)) = self.0.front() else {
            return;
        };
        for node in nodes {
            let Some(history) = self.1.get_mut(node) else {
                continue;
            };
            while history.front().is_some_and(|change| change.at < *first) {
                history.pop_front();
            }
            if history.len() == 1 && history[0].left == 0 {
                self.1.remove(node);
            }
        }
    }

    /// The least and the most work of this home that `node` may have counted in its report, `age_ms` ago.
    pub fn between(&self, node: &NodeName, age_ms: u64, now: Tick) -> (u64, u64) {
        let Some(history) = self.1.get(node) else {
            return (0, 0);
        };
        let from = Tick(now.0.saturating_sub(age_ms + LATE_MS));
        let to = Tick(now.0.saturating_sub(age_ms)).plus(EARLY_MS);
        let before = history.iter().rev().find(|change| change.at <= from);
        let before = before.map_or(0, |change| change.left);
        // It may have counted any of the processes that arrived or left in between.
        let within = history.iter().filter(|c| c.at > from && c.at <= to);
        let wider = |(went, came): (u64, u64), c: &Change| (went + c.went, came + c.came);
        let (went, came) = within.fold((0, 0), wider);
        (before.saturating_sub(went), before + came)
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
    fn all_changes_within_the_lag_count() {
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
        check(7_000, (0, 300));
        check(8_000, (0, 300));
        check(9_500, (0, 100));
        check(11_500, (0, 0));
    }

    #[test]
    fn swapped_process_counts_between_zero_and_two_times() {
        let mut past = Past::default();
        let node: NodeName = "n2".parse().unwrap();
        past.note([(node.clone(), 100)], Tick(1_000));
        let both = [(node.clone(), 200), (node.clone(), 100)];
        past.note(both, Tick(10_000));
        assert_eq!(past.between(&node, 0, Tick(11_000)), (0, 200));
        assert_eq!(past.between(&node, 0, Tick(20_000)), (100, 100));
        // The same, one after the other.
        past.note([(node.clone(), 0)], Tick(30_000));
        past.note([(node.clone(), 100)], Tick(30_500));
        assert_eq!(past.between(&node, 0, Tick(31_000)), (0, 200));
        // The same for many changes at once.
        (0..100).for_each(|n| past.note([(node.clone(), n)], Tick(40_000)));
        assert_eq!(past.1[&node].len(), 4);
    }

    #[test]
    fn history_is_bounded() {
        let mut past = Past::default();
        for t in 0..5000 {
            past.note(ours(t), Tick(t));
        }
        assert_eq!(past.0.len(), STEPS_MAX);
        past.note(ours(7), Tick(1_000_000));
        assert_eq!(past.0.len(), 2);
    }
}
