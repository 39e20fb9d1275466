//! Nodes in order, kept while moves change them: a farm of thousands is not looked through for each.

use crate::DEMAND_FULL;
use crate::plan::{DEMAND_MIN, Plan, PlannedNode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// How good a target is; the greater the better.
type Value = (bool, i64, u64, Reverse<usize>);

/// Nodes that differ by their work only: the less of it, the sooner one gains there. Cores, speed, and whether a core
/// is free there for everybody (0), for some (1) or for nobody (2).
pub(crate) type Class = (u32, u32, u8);

/// Where those who gain may come from and go to.
pub(crate) struct Ranks {
    /// By what one process gets there, slowest first; those from which somebody may go.
    sources: BTreeSet<(i64, Reverse<usize>)>,
    /// For a process of this demand.
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
        for (i, stand) in plan.stands.iter().enumerate() {
            ranks.put_in(plan, i, !stand.free.is_empty());
        }
        ranks
    }

    /// Where it is slowest.
    pub fn slowest(&self) -> Option<usize> {
        self.sources.first().map(|(_, Reverse(i))| *i)
    }

    /// Nobody goes from there.
    pub fn stuck(&mut self, stand: &PlannedNode, i: usize) {
        self.sources.remove(&source(stand, i));
    }

    /// Before: its work changes, or who may go from there. After: whether anybody could go.
    pub fn take_out(&mut self, plan: &Plan, i: usize) -> bool {
        let stand = &plan.stands[i];
        self.targets.remove(&(value(stand, self.demand), i));
        if let Some(class) = self.by_class.get_mut(&class(stand)) {
            class.remove(&(stand.slot.work, i));
        }
        self.sources.remove(&source(stand, i))
    }

    /// After it has changed. Where nobody may go it is no target: the emptiest are often those long unheard.
    pub fn put_in(&mut self, plan: &Plan, i: usize, may_go: bool) {
        let stand = &plan.stands[i];
        if may_go && !stand.free.is_empty() {
            self.sources.insert(source(stand, i));
        }
        if plan.takes_in(i) {
            self.targets.insert((value(stand, self.demand), i));
            let class = self.by_class.entry(class(stand)).or_default();
            class.insert((stand.slot.work, i));
        }
    }

    /// Targets for a process of this demand will be asked for.
    pub fn for_demand(&mut self, stands: &[PlannedNode], demand: u64) {
        if self.demand != demand {
            self.demand = demand;
            let before = std::mem::take(&mut self.targets);
            let each = before.into_iter().map(|(_, i)| i);
            self.targets = each.map(|i| (value(&stands[i], demand), i)).collect();
        }
    }

    /// Best first, `from` left out.
    pub fn targets(&self, from: usize) -> impl Iterator<Item = usize> {
        let best_first = self.targets.iter().rev().map(|(_, i)| *i);
        best_first.filter(move |i| *i != from)
    }

    /// The one of `of` with the least work, `from` left out: who gains nothing there gains nowhere among them.
    pub fn emptiest(&self, of: Class, from: usize) -> Option<usize> {
        let class = self.by_class.get(&of)?;
        class.iter().map(|(_, i)| *i).find(|i| *i != from)
    }
}

fn source(stand: &PlannedNode, i: usize) -> (i64, Reverse<usize>) {
    (stand.rate(stand.steady()), Reverse(i))
}

fn value(stand: &PlannedNode, demand: u64) -> Value {
    // Among equal ones where others compute: of what they leave we get a part, too.
    (
        stand.has_core(demand),
        stand.rate(stand.slot.work + demand),
        stand.slot.node.others,
        Reverse(stand.slot.turn),
    )
}

pub(crate) fn class(stand: &PlannedNode) -> Class {
    let (cores, speed) = stand.slot.make();
    let free_for = match (stand.has_core(DEMAND_FULL), stand.has_core(DEMAND_MIN)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    };
    (cores, speed, free_for)
}

/// Is what holds for the emptiest of a class true of all of it? Where a core is free for some only, it is not.
pub(crate) fn is_uniform(class: Class) -> bool {
    class.2 != 1
}
