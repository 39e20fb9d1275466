//! A farm on paper: what moves change while they are being chosen.

use crate::decide::{belongs_home, bound, grounds, order, suits};
use crate::weigh::{Seat, need_kib, price_ms, seats, takes_in};
use crate::{Cause, DEMAND_FULL, Move, Policy, Proc, View};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A process that wants less of a processor than this is not worth moving, hundredths.
pub(crate) const DEMAND_MIN: u64 = DEMAND_FULL / 2;
/// Of a crowd on one node so many are looked at, those who have computed most: more than may be under way.
const CROWD_MAX: usize = 1024;

/// One node with those of ours that compute there.
pub(crate) struct Stand<'a> {
    pub seat: Seat<'a>,
    /// Of ours, those who may move now.
    pub free: Vec<&'a Proc>,
    /// Somebody is under way to it or from it.
    pub unsettled: bool,
    /// What the farm itself takes there, hundredths; see [`Board::new`].
    pub kept: u64,
}

impl Stand<'_> {
    /// What one process gets with so much work in all, thousandths of a standard core.
    pub fn rate(&self, work: u64) -> i64 {
        self.seat.rate_of(work) as i64
    }

    pub fn name(&self) -> &NodeName {
        self.seat.name()
    }

    pub fn full(&self) -> u64 {
        u64::from(self.seat.node.entry.cores.max(1)) * DEMAND_FULL
    }

    /// Work there, of others only what stayed for some seconds: who passes by drives nobody out.
    pub fn steady(&self) -> u64 {
        let node = self.seat.node;
        self.seat.work - node.others + node.steady
    }

    /// Several share a core.
    pub fn is_crowded(&self) -> bool {
        self.steady() > self.full()
    }

    /// A core is left for `demand`.
    pub fn has_core(&self, demand: u64) -> bool {
        self.seat.work + demand <= self.full()
    }
}

pub(crate) struct Board<'a> {
    pub view: &'a View,
    pub policy: &'a Policy,
    pub stands: Vec<Stand<'a>>,
    pub chosen: Vec<Move>,
}

impl<'a> Board<'a> {
    pub fn new(view: &'a View, policy: &'a Policy, now: Tick) -> Board<'a> {
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
        let stand = |seat: Seat<'a>| Stand {
            free: free.remove(seat.name()).map_or(Vec::new(), first_of),
            unsettled: unsettled.contains(seat.name()),
            kept: 0,
            seat,
        };
        let mut stands: Vec<Stand> = seats(view, policy).into_iter().map(stand).collect();
        // What the farm takes of its home counts where somebody shares a core anyhow; where each has one of its own
        // nobody takes turns for so little.
        if stands.iter().any(Stand::is_crowded) {
            let kept = |stand: &mut Stand| stand.kept = view.kept_at(stand.name());
            stands.iter_mut().for_each(kept);
        }
        Board {
            stands,
            view,
            policy,
            chosen: Vec::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        let under_way = self.view.flights.len() + self.chosen.len();
        under_way >= self.policy.flights_max(self.view.nodes.len())
    }

    /// Might anybody go to `to`?
    pub fn takes_in(&self, to: usize) -> bool {
        takes_in(self.view, self.policy, &self.stands[to].seat)
    }

    pub fn price_ms(&self, proc: &Proc, to: usize) -> i64 {
        price_ms(proc, self.stands[to].name(), &self.view.me, self.policy)
    }

    /// May `proc` go to `to` at all?
    pub fn fits(&self, proc: &Proc, to: usize) -> bool {
        let seat = &self.stands[to].seat;
        suits(self.view, self.policy, seat.node, proc)
            && seat.has_room(self.policy, need_kib(proc.rss_kib))
    }

    /// `proc` will go.
    pub fn go(&mut self, proc: &Proc, from: usize, to: usize, cause: Cause) {
        let (source, target) = (&self.stands[from], &self.stands[to]);
        let work = |stand: &Stand| stand.seat.work + stand.kept;
        let rates = (
            source.seat.rate_of(work(source)),
            target.seat.rate_of(work(target) + proc.demand),
        );
        let chosen = order(
            proc,
            target.seat.node,
            grounds(cause, rates, proc, self.price_ms(proc, to)),
        );
        self.chosen.push(chosen);
        let source = &mut self.stands[from];
        source.free.retain(|p| p.pid != proc.pid);
        source.seat.work = source.seat.work.saturating_sub(proc.demand);
        source.unsettled = true;
        let target = &mut self.stands[to];
        target.seat.work += proc.demand;
        target.seat.flying_kib += need_kib(proc.rss_kib);
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
