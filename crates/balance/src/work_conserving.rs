//! Evens out: no core stands idle while another is shared, nobody is much slower than somebody else.

use crate::plan::Plan;
use crate::ranks::{Class, Ranks, class, is_uniform};
use crate::{Cause, Proc};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Who is alone on a core leaves it only for one that is so much faster, percent: less would hardly repay
/// the move, and is the measurement's noise.
const FASTER_PERCENT: i64 = 115;
/// A process of which little is known is expected to compute so long yet.
const REMAINS_MS_MIN: u64 = 1000;

/// Chooses until nothing is to gain: slowest first; a node from which nobody can go is left out.
pub(crate) fn fill_idle_cores(plan: &mut Plan) {
    let mut ranks = Ranks::new(plan);
    while !plan.is_full() {
        let Some(from) = ranks.slowest() else { return };
        let Some((proc, to)) = best(plan, &mut ranks, from) else {
            ranks.stuck(&plan.stands[from], from);
            continue;
        };
        let may_go = [from, to].map(|i| ranks.take_out(plan, i));
        plan.go(proc, from, to, Cause::Share);
        for (i, may_go) in [from, to].into_iter().zip(may_go) {
            ranks.put_in(plan, i, may_go);
        }
    }
}

/// Who of those at `from` goes where.
fn best<'a>(plan: &Plan<'a>, ranks: &mut Ranks, from: usize) -> Option<(&'a Proc, usize)> {
    let source = &plan.stands[from];
    ranks.for_demand(&plan.stands, source.free.first()?.demand);
    let mut hopeless: BTreeMap<Class, bool> = BTreeMap::new();
    for to in ranks.targets(from) {
        let class = class(&plan.stands[to]);
        let hopeless = hopeless.entry(class).or_insert_with(|| {
            let emptiest = ranks.emptiest(class, from);
            is_uniform(class) && !emptiest.is_some_and(|to| somebody_gains(plan, from, to))
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

fn somebody_gains(plan: &Plan, from: usize, to: usize) -> bool {
    let mut free = plan.stands[from].free.iter();
    free.any(|proc| gains(plan, from, to, proc))
}

fn candidate<'a>(plan: &Plan<'a>, from: usize, to: usize) -> Option<&'a Proc> {
    let (source, target) = (&plan.stands[from], &plan.stands[to]);
    let gains = |proc: &&&Proc| gains(plan, from, to, proc);
    let fits = |proc: &&&Proc| plan.fits(proc, to);
    let home = *target.name() == plan.view.me;
    let slower =
        |proc: &Proc| target.rate(target.slot.work + proc.demand) < source.rate(source.steady());
    // Who is behind goes where it is faster; home, who calls home.
    let worth = |proc: &&&Proc| {
        let lag = if slower(proc) {
            -proc.lag_ms
        } else {
            proc.lag_ms
        };
        let calls = if home { proc.forwarded_per_s } else { 0 };
        (calls, lag, proc.cpu_ms, Reverse(proc.pid))
    };
    let free = source.free.iter();
    free.filter(gains).filter(fits).max_by_key(worth).copied()
}

/// Is `proc` better off at `target`, or with it all of ours?
fn gains(plan: &Plan, from: usize, to: usize, proc: &Proc) -> bool {
    let (source, target, policy) = (&plan.stands[from], &plan.stands[to], plan.policy);
    let price = plan.price_ms(proc, to);
    let now = source.rate(source.steady());
    let then = target.rate(target.slot.work + proc.demand);
    let remains_ms = proc.age_ms.max(REMAINS_MS_MIN) as i64;
    if target.has_core(proc.demand) && source.is_crowded() {
        // An idle core is power for all, however slow, where taking turns costs little beside.
        let turns = price * policy.slower_each as i64 <= remains_ms;
        return turns && then * remains_ms > now.max(then) * price
            || pays(now, then, price, remains_ms);
    }
    if source.is_crowded() {
        let asked = proc.demand * policy.margin_percent / 100;
        return target.rate(target.slot.work + asked) > now && pays(now, then, price, remains_ms);
    }
    target.has_core(proc.demand)
        && then * 100 > now * FASTER_PERCENT
        && pays(now, then, price, remains_ms)
}

/// What is left takes so much less time there that the move is repaid.
fn pays(now: i64, then: i64, price_ms: i64, remains_ms: i64) -> bool {
    // remains / now against price + remains / then, in units of the present rate.
    then > now && remains_ms * (then - now) > price_ms * then
}
