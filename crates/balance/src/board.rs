//! A farm on paper: what moves change while they are being chosen.

use crate::decide::{bound, grounds, order, suits};
use crate::weigh::{Seat, has_room, need_kib, seats};
use crate::{Cause, DEMAND_FULL, Flight, Move, Policy, Proc, View};
use armento_gossip::Tick;
use armento_model::NodeName;

/// A process that wants less of a processor than this is not worth moving, hundredths.
pub(crate) const DEMAND_MIN: u64 = DEMAND_FULL / 2;

/// One node with those of ours that compute there.
pub(crate) struct Stand<'a> {
    pub seat: Seat<'a>,
    /// Of ours, those who may move now.
    pub free: Vec<&'a Proc>,
    /// Somebody is under way to it or from it.
    pub unsettled: bool,
}

impl Stand<'_> {
    /// What one process gets with so much work in all, thousandths of a standard core.
    pub fn rate(&self, work: u64) -> i64 {
        self.seat.rate_of(work) as i64
    }

    pub fn name(&self) -> &NodeName {
        self.seat.name()
    }

    fn full(&self) -> u64 {
        u64::from(self.seat.node.entry.cores.max(1)) * DEMAND_FULL
    }

    /// Several share a core.
    pub fn is_crowded(&self) -> bool {
        self.seat.work > self.full()
    }

    /// A core is left for `demand`.
    pub fn has_core(&self, demand: u64) -> bool {
        self.seat.work + demand <= self.full()
    }
}

pub(crate) struct Board<'a> {
    pub view: View,
    pub policy: &'a Policy,
    pub now: Tick,
    pub stands: Vec<Stand<'a>>,
    pub chosen: Vec<Move>,
}

impl<'a> Board<'a> {
    pub fn new(view: &'a View, policy: &'a Policy, now: Tick) -> Board<'a> {
        let free = |name: &NodeName| -> Vec<&'a Proc> {
            let here = |proc: &&Proc| proc.place == *name && proc.demand >= DEMAND_MIN;
            let all = view.procs.iter().filter(here);
            all.filter(|proc| bound(view, policy, proc, now).is_none())
                .collect()
        };
        let stand = |seat: Seat<'a>| {
            let name = seat.name();
            let flies = |f: &Flight| {
                let from = view.procs.iter().find(|p| p.pid == f.pid).map(|p| &p.place);
                f.to == *name || from == Some(name)
            };
            Stand {
                free: free(name),
                unsettled: view.flights.iter().any(flies),
                seat,
            }
        };
        Board {
            stands: seats(view, policy).into_iter().map(stand).collect(),
            view: view.clone(),
            policy,
            now,
            chosen: Vec::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.view.flights.len() >= self.policy.flights_max
    }

    /// May `proc` go to `to` at all?
    pub fn fits(&self, proc: &Proc, to: usize) -> bool {
        let node = self.stands[to].seat.node;
        suits(&self.view, self.policy, node, proc)
            && has_room(&self.view, self.policy, node, need_kib(proc.rss_kib))
    }

    /// `proc` will go.
    pub fn go(&mut self, proc: &Proc, from: usize, to: usize, cause: Cause) {
        let (source, target) = (&self.stands[from].seat, &self.stands[to].seat);
        let rates = (
            source.rate_of(source.work),
            target.rate_of(target.work + proc.demand),
        );
        let chosen = order(proc, target.node, grounds(cause, rates, proc, self.policy));
        self.view.flights.push(Flight {
            pid: proc.pid,
            to: self.stands[to].name().clone(),
            need_kib: need_kib(proc.rss_kib),
            since: self.now,
        });
        self.chosen.push(chosen);
        let source = &mut self.stands[from];
        source.free.retain(|p| p.pid != proc.pid);
        source.seat.work = source.seat.work.saturating_sub(proc.demand);
        source.unsettled = true;
        self.stands[to].seat.work += proc.demand;
        self.stands[to].unsettled = true;
    }
}
