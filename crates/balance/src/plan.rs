//! A model of the farm that is updated with each chosen move.

use crate::cost::{Slot, need_kib, price_ms, slots, takes_in};
use crate::eligible::{belongs_home, bound, grounds, order, suits};
use crate::{Cause, DEMAND_FULL, Move, Policy, Proc, View};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A process with less demand than this is not worth moving, hundredths.
pub(crate) const DEMAND_MIN: u64 = DEMAND_FULL / 2;
/// Limit of processes examined on one node, those with most CPU time: more than may be moving at once.
const CROWD_MAX: usize = 1024;

/// One node with this home's processes that compute there.
pub(crate) struct PlannedNode<'a> {
    pub slot: Slot<'a>,
    /// This home's processes there that may move now.
    pub free: Vec<&'a Proc>,
    /// A move to or from it is in progress.
    pub unsettled: bool,
    /// Overhead of the farm there, hundredths; see [`Plan::new`].
    pub overhead: u64,
}

impl PlannedNode<'_> {
    /// The share of one process when the total work is `work`, thousandths of a standard core.
    pub fn rate(&self, work: u64) -> i64 {
        self.slot.rate_of(work) as i64
    }

    pub fn name(&self) -> &NodeName {
        self.slot.name()
    }

    pub fn full(&self) -> u64 {
        u64::from(self.slot.node.entry.cores.max(1)) * DEMAND_FULL
    }

    /// Work there; of other homes' work only what lasted some seconds: a short load does not drive processes out.
    pub fn steady(&self) -> u64 {
        let node = self.slot.node;
        self.slot.work - node.others + node.steady
    }

    /// Whether several processes share a core.
    pub fn is_crowded(&self) -> bool {
        self.steady() > self.full()
    }

    /// [`PlannedNode::steady`] as `proc`, which is there, sees it: its own weight is nothing to itself.
    pub fn steady_for(&self, view: &View, proc: &Proc) -> u64 {
        self.steady().saturating_sub(view.weight(proc)) + proc.demand
    }

    /// Whether a core is free for `demand`.
    pub fn has_core(&self, demand: u64) -> bool {
        self.slot.work + demand <= self.full()
    }
}

pub(crate) struct Plan<'a> {
    pub view: &'a View,
    pub policy: &'a Policy,
    pub nodes: Vec<PlannedNode<'a>>,
    pub chosen: Vec<Move>,
}

impl<'a> Plan<'a> {
    pub fn new(view: &'a View, policy: &'a Policy, now: Tick) -> Plan<'a> {
        let flying: HashSet<Pid> = view.flights.iter().map(|f| f.pid).collect();
        let mut free: HashMap<&NodeName, Vec<&'a Proc>> = HashMap::new();
        let mut unsettled: HashSet<&NodeName> = view.flights.iter().map(|f| &f.to).collect();
        for proc in &view.procs {
            let flies = flying.contains(&proc.pid);
            if flies {
                unsettled.insert(&proc.place);
            }
            let may_go =
                bound(policy, proc, flies, now).is_none() && !belongs_home(view, policy, proc);
            if proc.demand >= DEMAND_MIN && may_go {
                free.entry(&proc.place).or_default().push(proc);
            }
        }
        let planned = |slot: Slot<'a>| PlannedNode {
            free: free.remove(slot.name()).map_or(Vec::new(), first_of),
            unsettled: unsettled.contains(slot.name()),
            overhead: 0,
            slot,
        };
        let mut nodes: Vec<PlannedNode> = slots(view, policy).into_iter().map(planned).collect();
        // The farm's overhead at home counts only if processes share a core somewhere anyhow; if each has a core of its
        // own, the overhead is too small to rotate for.
        if nodes.iter().any(PlannedNode::is_crowded) {
            let overhead =
                |planned: &mut PlannedNode| planned.overhead = view.overhead_at(planned.name());
            nodes.iter_mut().for_each(overhead);
        }
        Plan {
            nodes,
            view,
            policy,
            chosen: Vec::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        let under_way = self.view.flights.len() + self.chosen.len();
        under_way >= self.policy.flights_max(self.view.nodes.len())
    }

    /// Whether any process might go to `to`.
    pub fn takes_in(&self, to: usize) -> bool {
        takes_in(self.view, self.policy, &self.nodes[to].slot)
    }

    pub fn price_ms(&self, proc: &Proc, to: usize) -> i64 {
        price_ms(proc, self.nodes[to].name(), &self.view.me, self.policy)
    }

    /// Whether `proc` may go to `to` at all.
    pub fn fits(&self, proc: &Proc, to: usize) -> bool {
        let slot = &self.nodes[to].slot;
        suits(self.view, self.policy, slot.node, proc)
            && slot.has_room(self.policy, need_kib(proc.rss_kib))
    }

    /// Records that `proc` will go.
    pub fn go(&mut self, proc: &Proc, from: usize, to: usize, cause: Cause) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let work = |planned: &PlannedNode| planned.slot.work + planned.overhead;
        let rates = (
            source.slot.rate_of(work(source)),
            target.slot.rate_of(work(target) + proc.demand),
        );
        let chosen = order(
            proc,
            target.slot.node,
            grounds(cause, rates, proc, self.price_ms(proc, to)),
        );
        self.chosen.push(chosen);
        let weight = self.view.weight(proc);
        let source = &mut self.nodes[from];
        source.free.retain(|p| p.pid != proc.pid);
        source.slot.work = source.slot.work.saturating_sub(weight);
        source.unsettled = true;
        let target = &mut self.nodes[to];
        target.slot.work += weight;
        target.slot.flying_kib += need_kib(proc.rss_kib);
        target.unsettled = true;
    }
}

fn first_of(mut crowd: Vec<&Proc>) -> Vec<&Proc> {
    if crowd.len() > CROWD_MAX {
        crowd.select_nth_unstable_by_key(CROWD_MAX, |p| (Reverse(p.cpu_ms), p.pid));
        crowd.truncate(CROWD_MAX);
        crowd.sort_by_key(|p| p.pid);
    }
    crowd
}
