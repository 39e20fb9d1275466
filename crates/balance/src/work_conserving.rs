//! Evens out: no core is idle while another is shared, and no process is much slower than another.

use crate::plan::{Plan, REMAINS_MS_MIN, WORTH_PERCENT, pays};
use crate::ranks::{Class, Ranks, class, is_uniform};
use crate::{Cause, Proc};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Where guests have a lower weight than this, a process with a core of its own at home becomes one only where it gets on
/// this much faster, percent.
const YIELDS_BELOW: u64 = 50;
const GUEST_PERCENT: i64 = 200;
/// Losses to files that fall into the same step count as equal when a process is chosen, microseconds for a second of
/// CPU time.
const LOSS_STEP_US: u64 = 100_000;

/// Chooses moves until nothing is gained: slowest node first; a node from which no process can go is left out.
pub(crate) fn fill_idle_cores(plan: &mut Plan) {
    let mut ranks = Ranks::new(plan);
    while !plan.is_full() {
        let Some(from) = ranks.slowest() else { return };
        let Some((proc, to)) = best(plan, &mut ranks, from) else {
            ranks.stuck(&plan.nodes[from], from);
            continue;
        };
        let may_go = [from, to].map(|i| ranks.take_out(plan, i));
        plan.go(proc, from, to, Cause::Share);
        for (i, may_go) in [from, to].into_iter().zip(may_go) {
            ranks.put_in(plan, i, may_go);
        }
    }
}

/// The process at `from` that moves, and its target.
fn best<'a>(plan: &Plan<'a>, ranks: &mut Ranks, from: usize) -> Option<(&'a Proc, usize)> {
    let source = &plan.nodes[from];
    ranks.for_demand(&plan.nodes, source.free.first()?.demand);
    let mut hopeless: BTreeMap<Class, bool> = BTreeMap::new();
    for to in ranks.targets(from) {
        let class = class(&plan.nodes[to]);
        let hopeless = hopeless.entry(class).or_insert_with(|| {
            let emptiest = ranks.emptiest(class, from);
            is_uniform(class) && !emptiest.is_some_and(|to| any_gains(plan, from, to))
        });
        if *hopeless {
            continue;
        }
        if let Some(proc) = candidate(plan, from, to) {
            return Some((proc, to));
        }
    }
    None
}

fn any_gains(plan: &Plan, from: usize, to: usize) -> bool {
    let mut free = plan.nodes[from].free.iter();
    free.any(|proc| gains(plan, from, to, proc))
}

fn candidate<'a>(plan: &Plan<'a>, from: usize, to: usize) -> Option<&'a Proc> {
    let (source, target) = (&plan.nodes[from], &plan.nodes[to]);
    let gains = |proc: &&&Proc| gains(plan, from, to, proc);
    let fits = |proc: &&&Proc| plan.fits(proc, to);
    let home = *target.name() == plan.view.me;
    let slower =
        |proc: &Proc| target.rate(target.slot.work + proc.demand) < source.rate(source.steady());
    // A process that is behind goes to a faster node; one that loses much to files goes where they are, and does not leave.
    let worth = |proc: &&&Proc| {
        let lag = if slower(proc) {
            -proc.lag_ms
        } else {
            proc.lag_ms
        };
        let calls = if home { proc.files.home.waits } else { 0 };
        let loses = plan.loss_us(proc, to) / LOSS_STEP_US;
        (calls, Reverse(loses), lag, proc.cpu_ms, Reverse(proc.pid))
    };
    let free = source.free.iter();
    free.filter(gains).filter(fits).max_by_key(worth).copied()
}

/// Whether `proc`, or all processes of this home together, gain if it moves to `target`.
fn gains(plan: &Plan, from: usize, to: usize, proc: &Proc) -> bool {
    let (source, target, policy) = (&plan.nodes[from], &plan.nodes[to], plan.policy);
    if !plan.bears(proc, from, to) {
        return false;
    }
    let price = plan.price_ms(proc, to);
    let work = source.steady_for(plan.view, proc);
    let crowded = match source.slot.comes_first() {
        true => source.is_crowded(),
        false => work > source.full(),
    };
    let now = plan.progress(proc, from, work);
    let then = plan.progress(proc, to, target.slot.work + proc.demand);
    let remains_ms = proc.age_ms.max(REMAINS_MS_MIN) as i64;
    if target.has_core(proc.demand) && crowded {
        // An idle core adds power, however slow, if rotations cost little in comparison.
        let turns = price * policy.slower_each as i64 <= remains_ms;
        return turns && then * remains_ms > now.max(then) * price
            || pays(now, then, price, remains_ms);
    }
    if crowded && plan.view.typical_ms.is_some() {
        // Short programs come and go: the next of them even the nodes out, for nothing.
        return false;
    }
    if crowded {
        let asked = proc.demand * policy.margin_percent / 100;
        let asked = plan.progress(proc, to, target.slot.work + asked);
        return asked > now && pays(now, then, price, remains_ms);
    }
    // At home it comes first; a guest that yields may lose its core at any moment.
    let yields = policy.guest_weight < YIELDS_BELOW && *source.name() == plan.view.me;
    let worth = if yields { GUEST_PERCENT } else { WORTH_PERCENT };
    target.has_core(proc.demand) && then * 100 > now * worth && pays(now, then, price, remains_ms)
}
