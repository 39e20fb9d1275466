//! Decides which processes should move.
//!
//! From: `gossip/src/vector.rs` (the load data). Next: `noded/src/policy/act.rs` (orders the moves).

use crate::cost::{
    Slot, flying_kib, leaving_kib, left_kib, need_kib, price_ms, reserve_kib, slots,
};
use crate::eligible::{belongs_home, bound, calls_permille, grounds, order, suits};
use crate::follow_files::follow_files;
use crate::groups::move_a_group;
use crate::plan::{DEMAND_MIN, Plan};
use crate::rotation::rotate;
use crate::work_conserving::fill_idle_cores;
use crate::{Cause, Flight, Kind, Move, Node, Policy, Proc, View};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Chooses which of this home's processes move, from any node to any other, including home. No clock, no randomness, no
/// I/O. At most one a period from each node; each choice takes the earlier ones into account. PAPER: in MOSIX every
/// node decides once a second about the processes on it; here a home decides about its own processes wherever they run,
/// so that one decision a second for the whole home would leave a farm uneven for as many seconds as it has nodes.
pub fn decide(view: &View, policy: &Policy, now: Tick) -> Vec<Move> {
    if policy.kind == Kind::Armento {
        return balanced(view, policy, now);
    }
    let mut chosen: Vec<Move> = Vec::new();
    let mut view = view.clone();
    while policy.kind == Kind::Mosix && is_turn(&view, policy, now) {
        let done = |node: &NodeName| chosen.iter().any(|m| m.from == *node);
        // Memory first: a node that swaps is of no use.
        let next = usher(&view, policy, now, &done).or_else(|| relieve(&view, policy, now, &done));
        let Some(next) = next else { break };
        let rss_kib = view.procs.iter().find(|p| p.pid == next.pid);
        view.flights.push(Flight {
            pid: next.pid,
            to: next.to.clone(),
            need_kib: need_kib(rss_kib.map_or(0, |p| p.rss_kib)),
            since: now,
        });
        chosen.push(next);
    }
    chosen
}

/// Memory first, then files, then no idle core, then equal progress.
fn balanced(view: &View, policy: &Policy, now: Tick) -> Vec<Move> {
    if !is_turn(view, policy, now) {
        return Vec::new();
    }
    if let Some(next) = usher(view, policy, now, &|_| false) {
        return vec![next];
    }
    let mut plan = Plan::new(view, policy, now);
    follow_files(&mut plan, now);
    fill_idle_cores(&mut plan);
    if plan.chosen.is_empty() {
        move_a_group(&mut plan, now);
    }
    // A stream of short programs needs no rotation.
    if plan.chosen.is_empty() && !view.weighs() {
        rotate(&mut plan);
    }
    plan.chosen
}

fn is_turn(view: &View, policy: &Policy, now: Tick) -> bool {
    let rested = view
        .decided_last
        .is_none_or(|last| now.since(last) >= policy.period_ms);
    // A core that became free is used at once. Several processes of one job end almost together: waiting for the next
    // second would leave a node idle for a second.
    let freed = view.ended_last > view.decided_last
        && view
            .decided_last
            .is_none_or(|last| now.since(last) >= policy.prompt_ms);
    // Before the first sample the load of home's own processor is unknown.
    (rested || freed)
        && view.own().is_some()
        && view.flights.len() < policy.flights_max(view.nodes.len())
}

/// The processes that may move now, by place. For `memory` also those that had better stay at home.
fn free<'a>(
    view: &'a View,
    policy: &Policy,
    memory: bool,
    now: Tick,
) -> HashMap<&'a NodeName, Vec<&'a Proc>> {
    let flying: HashSet<Pid> = view.flights.iter().map(|f| f.pid).collect();
    let free = |p: &&Proc| {
        bound(view, policy, p, flying.contains(&p.pid), now).is_none()
            && (memory || !belongs_home(view, policy, p))
    };
    let mut by_place: HashMap<&NodeName, Vec<&Proc>> = HashMap::new();
    for proc in view.procs.iter().filter(free) {
        by_place.entry(&proc.place).or_default().push(proc);
    }
    by_place
}

/// Moves one process of this home from a node that runs out of memory to one with plenty.
fn usher(
    view: &View,
    policy: &Policy,
    now: Tick,
    done: &dyn Fn(&NodeName) -> bool,
) -> Option<Move> {
    let (flying, leaving) = (flying_kib(view), leaving_kib(view));
    let of = |sum: &HashMap<&NodeName, u64>, node: &Node| {
        let kib = sum.get(&node.entry.node);
        kib.copied().unwrap_or(0)
    };
    let lacks_kib = |node: &Node| {
        let soon = node.freed_kib + of(&leaving, node);
        reserve_kib(node, policy).saturating_sub(left_kib(node, of(&flying, node)) + soon)
    };
    let short = |node: &&Node| {
        node.entry.mem_total_kib > 0 && lacks_kib(node) > 0 && !done(&node.entry.node)
    };
    if !view.nodes.iter().any(|node| short(&node)) {
        return None;
    }
    let slots = slots(view, policy);
    let mut free = free(view, policy, true, now);
    for from in view.nodes.iter().filter(short) {
        let mut here = free.remove(&from.entry.node).unwrap_or_default();
        // The smallest that suffices: less to transfer, and less room needed. If none suffices, the largest.
        let lacks_kib = lacks_kib(from);
        here.sort_by_key(|proc| {
            let suffices = proc.rss_kib >= lacks_kib;
            let smaller = if suffices {
                proc.rss_kib
            } else {
                u64::MAX - proc.rss_kib
            };
            (!suffices, smaller, proc.pid)
        });
        // Twice the reserve must remain free at the target, so that it is not the next to run short; once the reserve,
        // if half of it is used up here.
        let hard = lacks_kib > reserve_kib(from, policy) / 2;
        let margins: &[u64] = if hard { &[1, 0] } else { &[1] };
        for (proc, margin) in margins
            .iter()
            .flat_map(|m| here.iter().map(move |p| (p, m)))
        {
            let need = |to: &Slot| need_kib(proc.rss_kib) + margin * reserve_kib(to.node, policy);
            let target = slots
                .iter()
                .filter(|to| *to.name() != from.entry.node && suits(view, policy, to.node, proc))
                .filter(|to| to.has_room(policy, need(to)))
                .min_by_key(|to| (to.cost_with(proc.demand), to.turn));
            if let Some(to) = target {
                let here = slots.iter().find(|s| *s.name() == from.entry.node);
                let now = here.map_or(0, |slot| slot.rate_of(slot.work));
                let rates = (now, to.rate_of(to.work + proc.demand));
                let why = grounds(
                    Cause::Memory,
                    rates,
                    (0, 0),
                    proc,
                    price_ms(proc, to.name(), &view.me, policy),
                );
                return Some(order(proc, to.node, why));
            }
        }
    }
    None
}

/// Evens out the load: takes the pair of nodes with the largest difference, if that is worth a move.
fn relieve(
    view: &View,
    policy: &Policy,
    now: Tick,
    done: &dyn Fn(&NodeName) -> bool,
) -> Option<Move> {
    let mut free = free(view, policy, false, now);
    free.retain(|_, here| {
        here.retain(|proc| proc.demand >= DEMAND_MIN);
        !here.is_empty()
    });
    let slots = slots(view, policy);
    let asked = |demand: u64| demand * policy.margin_percent / 100;

    let mut best: Option<((u64, Reverse<usize>), Move)> = None;
    for from in slots.iter().filter(|slot| !done(slot.name())) {
        let Some(here) = free.get(from.name()) else {
            continue;
        };
        let now_costs = from.cost_with(0);
        // Most pairs are rejected here, before any processes are examined.
        let better =
            |to: &&Slot| to.name() != from.name() && to.cost_with(asked(DEMAND_MIN)) < now_costs;
        for to in slots.iter().filter(better) {
            let Some(proc) = candidate(view, policy, here, to) else {
                continue;
            };
            // PAPER: one-sided: a home moves only its own processes, and only to a node that is better for the process
            // even with the margin.
            let then_costs = to.cost_with(asked(proc.demand));
            if then_costs >= now_costs {
                continue;
            }
            let rank = (now_costs - then_costs, Reverse(to.turn));
            if best.as_ref().is_none_or(|(top, _)| rank > *top) {
                let rates = (from.rate_of(from.work), to.rate_of(to.work + proc.demand));
                let why = grounds(
                    Cause::Share,
                    rates,
                    (0, 0),
                    proc,
                    price_ms(proc, to.name(), &view.me, policy),
                );
                best = Some((rank, order(proc, to.node, why)));
            }
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// The process of `here` that goes to `to`. Away from home, the one with the longest history of computing and the
/// fewest calls home: it will probably go on so. Towards home, the one with most calls home.
fn candidate<'a>(view: &View, policy: &Policy, here: &[&'a Proc], to: &Slot) -> Option<&'a Proc> {
    let fits = |proc: &&&Proc| {
        suits(view, policy, to.node, proc) && to.has_room(policy, need_kib(proc.rss_kib))
    };
    let homewards = *to.name() == view.me;
    let worth = |proc: &&&Proc| {
        let price = calls_permille(view, policy, proc).min(1000);
        let computing = proc.cpu_ms * (1000 - price) / 1000;
        (
            if homewards { price } else { 0 },
            computing,
            Reverse(proc.pid),
        )
    };
    here.iter().filter(fits).max_by_key(worth).copied()
}
