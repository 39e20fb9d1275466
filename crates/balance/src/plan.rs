//! A model of the farm that is updated with each chosen move.

use crate::cost::{Slot, need_kib, price_ms, slots, takes_in};
use crate::eligible::{belongs_home, bound, grounds, order, suits};
use crate::loss::{Losses, slowed};
use crate::{Cause, DEMAND_FULL, Move, Policy, Proc, View};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A process with less demand than this is not worth moving, hundredths.
pub(crate) const DEMAND_MIN: u64 = DEMAND_FULL / 2;
/// What a node's own programs must leave of its cores so that it is used like an idle core, hundredths.
const GAP_MIN: u64 = 40;
/// Limit of processes examined on one node, those with most CPU time: more than may be moving at once.
const CROWD_MAX: usize = 1024;

/// A process leaves a core or its files only for a place where it gets on this much faster, percent: less would hardly
/// repay the move, is within measurement noise, and lets no process go to and fro.
pub(crate) const WORTH_PERCENT: i64 = 115;
/// … and if it has come back to its files lately: the load of others goes up and down, and it would go with it.
const BACK_PERCENT: i64 = 200;
/// Expected remaining time of a process about which little is known.
pub(crate) const REMAINS_MS_MIN: u64 = 1000;
/// A process that loses no more than this by a move need not gain by it itself, microseconds for a second of CPU time: a
/// tenth. An idle core and equal progress are worth that.
const LOSS_SMALL_US: u64 = 100_000;

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
        self.slot.work - self.slot.others + self.slot.steady
    }

    /// Whether several processes share a core. What a node's own programs leave of one is no worse for the only one that
    /// uses it: it went there for that.
    pub fn is_crowded(&self) -> bool {
        match self.slot.comes_first() {
            true => self.slot.beside_first(self.steady()) > self.slot.left().max(DEMAND_MIN * 3),
            false => self.steady() > self.full(),
        }
    }

    /// [`PlannedNode::steady`] as `proc`, which is there, sees it: its own weight is nothing to itself.
    pub fn steady_for(&self, view: &View, proc: &Proc) -> u64 {
        self.steady().saturating_sub(view.weight(proc)) + proc.demand
    }

    /// Whether a core is free for `demand`; where the node's own programs come before guests, also whether they leave a
    /// good part of one.
    pub fn has_core(&self, demand: u64) -> bool {
        self.slot.work + demand <= self.full() || self.slot.gap() >= GAP_MIN
    }
}

pub(crate) struct Plan<'a> {
    pub view: &'a View,
    pub policy: &'a Policy,
    pub nodes: Vec<PlannedNode<'a>>,
    pub chosen: Vec<Move>,
    losses: Losses<'a>,
    now: Tick,
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
            let may_go = bound(view, policy, proc, flies, now).is_none()
                && !belongs_home(view, policy, proc);
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
        let home = nodes.iter().find(|planned| *planned.name() == view.me);
        let home_cost = home.map_or(10_000, |home| home.slot.cost_with(0));
        Plan {
            losses: Losses::new(view, policy, home_cost),
            now,
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

    /// What `proc` loses to files at node `at`: [`Losses::us`].
    pub fn loss_us(&self, proc: &Proc, at: usize) -> u64 {
        self.losses.us(proc, self.nodes[at].slot.node)
    }

    /// How fast `proc` gets on at node `at` when the work there is `work`, with what it loses to files: thousandths of
    /// a standard core.
    pub fn progress(&self, proc: &Proc, at: usize, work: u64) -> i64 {
        slowed(self.nodes[at].rate(work), self.loss_us(proc, at))
    }

    /// Whether a move takes `proc` no further from its files, or is worth that for the process itself.
    pub fn bears(&self, proc: &Proc, from: usize, to: usize) -> bool {
        if proc.files.is_none()
            || self.loss_us(proc, to) <= self.loss_us(proc, from) + LOSS_SMALL_US
        {
            return true;
        }
        let now = self.progress(proc, from, self.nodes[from].steady());
        let then = self.progress(proc, to, self.nodes[to].slot.work + proc.demand);
        let is_back = proc.back_until.is_some_and(|until| self.now < until);
        let worth = if is_back { BACK_PERCENT } else { WORTH_PERCENT };
        then * 100 > now * worth
    }

    /// Whether `proc` may go to `to` at all.
    pub fn fits(&self, proc: &Proc, to: usize) -> bool {
        let slot = &self.nodes[to].slot;
        suits(self.view, self.policy, slot.node, proc)
            && slot.has_room(self.policy, need_kib(proc.rss_kib))
    }

    /// Records that `proc` will go.
    pub fn go(&mut self, proc: &Proc, from: usize, to: usize, cause: Cause) {
        self.go_together(&[proc], from, to, cause);
    }

    /// Records that all of `members` will go, ordered as a move of the first.
    pub fn go_together(&mut self, members: &[&Proc], from: usize, to: usize, cause: Cause) {
        let Some(first) = members.first() else { return };
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let work = |planned: &PlannedNode| planned.slot.work + planned.overhead;
        let demand: u64 = members.iter().map(|p| p.demand).sum();
        let rates = (
            source.slot.rate_of(work(source)),
            target.slot.rate_of(work(target) + demand),
        );
        let losses = (self.loss_us(first, from), self.loss_us(first, to));
        let price_ms = members.iter().map(|p| self.price_ms(p, to)).sum();
        let why = grounds(cause, rates, losses, first, price_ms);
        self.chosen.push(order(first, target.slot.node, why));
        let weight: u64 = members.iter().map(|p| self.view.weight(p)).sum();
        let source = &mut self.nodes[from];
        source
            .free
            .retain(|p| members.iter().all(|m| m.pid != p.pid));
        source.slot.work = source.slot.work.saturating_sub(weight);
        source.unsettled = true;
        let target = &mut self.nodes[to];
        target.slot.work += weight;
        target.slot.flying_kib += need_kib(members.iter().map(|p| p.rss_kib).sum());
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

/// Whether the remaining time becomes so much shorter there that the move is repaid.
pub(crate) fn pays(now: i64, then: i64, price_ms: i64, remains_ms: i64) -> bool {
    // remains / now against price + remains / then, in units of the present rate.
    then > now && remains_ms * (then - now) > price_ms * then
}
