//! Processes that share memory move together, where there is room for all of them and all gain.

use crate::Cause;
use crate::cost::need_kib;
use crate::eligible::{belongs_home, bound_alone, suits};
use crate::plan::{DEMAND_MIN, Plan, REMAINS_MS_MIN, WORTH_PERCENT, pays};
use crate::view::Proc;
use armento_gossip::Tick;
use armento_model::Pid;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// Chooses at most one group: it is several processes at once, and its move shows in no load yet.
pub(crate) fn move_a_group(plan: &mut Plan, now: Tick) {
    let mut groups: BTreeMap<Pid, Vec<&Proc>> = BTreeMap::new();
    for proc in &plan.view.procs {
        if let Some(first) = proc.group {
            groups.entry(first).or_default().push(proc);
        }
    }
    let flying: HashSet<Pid> = plan.view.flights.iter().map(|f| f.pid).collect();
    for members in groups.values().filter(|_| !plan.is_full()) {
        let free = |p: &&Proc| {
            bound_alone(plan.view, plan.policy, p, flying.contains(&p.pid), now).is_none()
                && !belongs_home(plan.view, plan.policy, p)
        };
        let place = &members[0].place;
        if !members.iter().all(|p| free(p) && p.place == *place) {
            continue;
        }
        let Some(from) = plan.nodes.iter().position(|n| n.name() == place) else {
            continue;
        };
        if let Some(to) = best(plan, members, from) {
            return plan.go_together(members, from, to, Cause::Share);
        }
    }
}

/// The node where they get on best, if that is much better than where they are.
fn best(plan: &Plan, members: &[&Proc], from: usize) -> Option<usize> {
    let demand: u64 = members.iter().map(|p| p.demand).sum();
    if demand < DEMAND_MIN {
        return None;
    }
    let rss_kib = members.iter().map(|p| p.rss_kib).sum();
    let progress =
        |at: usize, work: u64| -> i64 { members.iter().map(|p| plan.progress(p, at, work)).sum() };
    let now = progress(from, plan.nodes[from].steady());
    let gains = |to: usize| {
        let slot = &plan.nodes[to].slot;
        let room = slot.has_room(plan.policy, need_kib(rss_kib));
        let all = |p: &&Proc| suits(plan.view, plan.policy, slot.node, p);
        if to == from || plan.nodes[to].unsettled || !room || !members.iter().all(all) {
            return None;
        }
        let then = progress(to, slot.work + demand);
        // All stand still while one after the other is sent.
        let price_ms = members.iter().map(|p| plan.price_ms(p, to)).sum();
        let age_ms = members.iter().map(|p| p.age_ms).max().unwrap_or(0);
        let remains_ms = age_ms.max(REMAINS_MS_MIN) as i64;
        let worth = then * 100 > now * WORTH_PERCENT && pays(now, then, price_ms, remains_ms);
        worth.then_some((then, Reverse(to)))
    };
    let best = (0..plan.nodes.len()).filter_map(gains).max();
    best.map(|(_, Reverse(to))| to)
}
