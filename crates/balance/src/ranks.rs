//! Nodes in order, updated as moves change them, so that a farm of thousands is not searched for each move.

use crate::DEMAND_FULL;
use crate::plan::{DEMAND_MIN, Plan, PlannedNode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The value of a target; greater is better.
type Value = (bool, i64, u64, Reverse<usize>);

/// Nodes that differ only by their work: less work there means more gain. Cores, speed, and whether a core is free
/// there for every process (0), for some (1) or for none (2).
pub(crate) type Class = (u32, u32, u8);

/// Candidate sources and targets of moves.
pub(crate) struct Ranks {
    /// By the share of one process there, slowest first; those from which a process may go.
    sources: BTreeSet<(i64, Reverse<usize>)>,
    /// The targets are ordered for a process of this demand.
    demand: u64,
    targets: BTreeSet<(Value, usize)>,
    by_class: BTreeMap<Class, BTreeSet<(u64, usize)>>,
}

impl Ranks {
    pub fn new(plan: &Plan) -> Ranks {
        let mut ranks = Ranks {
            sources: BTreeSet::new(),
            demand: DEMAND_FULL,
            targets: BTreeSet::new(),
            by_class: BTreeMap::new(),
        };
        for (i, planned) in plan.nodes.iter().enumerate() {
            ranks.put_in(plan, i, !planned.free.is_empty());
        }
        ranks
    }

    /// The node where processes are slowest.
    pub fn slowest(&self) -> Option<usize> {
        self.sources.first().map(|(_, Reverse(i))| *i)
    }

    /// No process can go from there.
    pub fn stuck(&mut self, planned: &PlannedNode, i: usize) {
        self.sources.remove(&source(planned, i));
    }

    /// Before: its work, or the set of its movable processes, changes. After: returns whether any process could go.
    pub fn take_out(&mut self, plan: &Plan, i: usize) -> bool {
        let planned = &plan.nodes[i];
        self.targets.remove(&(value(planned, self.demand), i));
        if let Some(class) = self.by_class.get_mut(&class(planned)) {
            class.remove(&(planned.slot.work, i));
        }
        self.sources.remove(&source(planned, i))
    }

    /// Adds it after the change. With `may_go` false it is not a target either: the emptiest nodes are often those that
    /// have not reported for long.
    pub fn put_in(&mut self, plan: &Plan, i: usize, may_go: bool) {
        let planned = &plan.nodes[i];
        if may_go && !planned.free.is_empty() {
            self.sources.insert(source(planned, i));
        }
        if plan.takes_in(i) {
            self.targets.insert((value(planned, self.demand), i));
            let class = self.by_class.entry(class(planned)).or_default();
            class.insert((planned.slot.work, i));
        }
    }

    /// Orders the targets for a process of this demand.
    pub fn for_demand(&mut self, nodes: &[PlannedNode], demand: u64) {
        if self.demand != demand {
            self.demand = demand;
            let before = std::mem::take(&mut self.targets);
            let each = before.into_iter().map(|(_, i)| i);
            self.targets = each.map(|i| (value(&nodes[i], demand), i)).collect();
        }
    }

    /// Best first, without `from`.
    pub fn targets(&self, from: usize) -> impl Iterator<Item = usize> {
        let best_first = self.targets.iter().rev().map(|(_, i)| *i);
        best_first.filter(move |i| *i != from)
    }

    /// The node of class `of` with the least work, without `from`: a process that gains nothing there gains nothing in
    /// the class.
    pub fn emptiest(&self, of: Class, from: usize) -> Option<usize> {
        let class = self.by_class.get(&of)?;
        class.iter().map(|(_, i)| *i).find(|i| *i != from)
    }
}

fn source(planned: &PlannedNode, i: usize) -> (i64, Reverse<usize>) {
    (planned.rate(planned.steady()), Reverse(i))
}

fn value(planned: &PlannedNode, demand: u64) -> Value {
    // Among equal nodes prefer one where other processes compute: what they leave is partly ours, too.
    (
        planned.has_core(demand),
        planned.rate(planned.slot.work + demand),
        planned.slot.node.others,
        Reverse(planned.slot.turn),
    )
}

pub(crate) fn class(planned: &PlannedNode) -> Class {
    let (cores, speed) = planned.slot.make();
    let free_for = match (planned.has_core(DEMAND_FULL), planned.has_core(DEMAND_MIN)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    };
    (cores, speed, free_for)
}

/// Whether a result for the emptiest node of a class is valid for the whole class. It is not if a core is free for some
/// processes only.
pub(crate) fn is_uniform(class: Class) -> bool {
    class.2 != 1
}
