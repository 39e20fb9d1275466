//! A process that works on one node's files goes there, when its processor allows.

use crate::Cause;
use crate::eligible::bound;
use crate::plan::{Plan, REMAINS_MS_MIN, WORTH_PERCENT, pays};
use crate::view::{DEMAND_FULL, Proc};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A process that loses less of its time than this stays, thousandths: a mostly idle one gains nothing.
const FELT_PERMILLE: u64 = 50;
/// Processes examined in one decision, those that lose most.
const LOOKED_MAX: usize = 256;

/// Before: nothing is chosen yet.
pub(crate) fn follow_files(plan: &mut Plan, now: Tick) {
    let view = plan.view;
    if view.procs.iter().all(|p| p.files.is_none()) {
        return;
    }
    let names = plan.nodes.iter().enumerate();
    let places: HashMap<NodeName, usize> = names.map(|(i, n)| (n.name().clone(), i)).collect();
    let flying: HashSet<Pid> = view.flights.iter().map(|f| f.pid).collect();
    let mut felt: Vec<(Reverse<u64>, Pid, &Proc, usize)> = Vec::new();
    for proc in view.procs.iter().filter(|p| !p.files.is_none()) {
        let Some(&from) = places.get(&proc.place) else {
            continue;
        };
        // What it loses in a second, not only in a second of CPU time.
        let loses = plan.loss_us(proc, from) / 1000 * proc.computes_permille / 1000;
        let may_go = bound(plan.policy, proc, flying.contains(&proc.pid), now).is_none();
        if loses >= FELT_PERMILLE && may_go {
            felt.push((Reverse(loses), proc.pid, proc, from));
        }
    }
    felt.sort_by_key(|(loses, pid, ..)| (*loses, *pid));
    for (_, _, proc, from) in felt.into_iter().take(LOOKED_MAX) {
        if plan.is_full() {
            return;
        }
        if let Some(to) = best(plan, &places, proc, from) {
            plan.go(proc, from, to, Cause::Files);
        }
    }
}

/// The node of its files where it gets on best, if that is much better than where it is.
fn best(plan: &Plan, places: &HashMap<NodeName, usize>, proc: &Proc, from: usize) -> Option<usize> {
    let holders = proc.files.others.iter().map(|(node, _)| node);
    let holders = holders.chain([&plan.view.me]);
    let there = holders.filter_map(|name| places.get(name).copied());
    let now = plan.progress(proc, from, plan.nodes[from].steady());
    let lost = plan.loss_us(proc, from);
    let gains = |to: &usize| {
        // There it no longer waits: it computes all the time.
        let then = plan.progress(proc, *to, plan.nodes[*to].slot.work + DEMAND_FULL);
        let remains_ms = proc.age_ms.max(REMAINS_MS_MIN) as i64;
        let worth = then * 100 > now * WORTH_PERCENT;
        (worth && pays(now, then, plan.price_ms(proc, *to), remains_ms)).then_some(then)
    };
    there
        .filter(|to| *to != from && plan.loss_us(proc, *to) < lost && plan.fits(proc, *to))
        .filter_map(|to| Some((gains(&to)?, Reverse(to))))
        .max()
        .map(|(_, Reverse(to))| to)
}
