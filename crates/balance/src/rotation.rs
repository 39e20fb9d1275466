//! Taking turns: equal progress for all where processors cannot be divided evenly.
//!
//! Seventeen processes on sixteen nodes leave two of them at half speed. Whoever is ahead changes places with
//! whoever is behind; between equal nodes one move does it: from a pair, one goes to who was alone.

use crate::cost::slots;
use crate::plan::{DEMAND_MIN, Plan};
use crate::{Cause, Policy, Proc, View};
use armento_model::{NodeName, Pid};
use std::collections::{HashMap, HashSet};

/// Slots are worth a change of places from this difference on, percent.
const FASTER_PERCENT: i64 = 108;
/// Farms beyond so many slow or fast nodes: those with the largest lags only.
const LOOKED_MAX: usize = 64;

/// What the moment of its birth made of a process's lag says little: it is looked ahead so far at least.
const HORIZON_MS_MIN: u64 = 3_000;

/// What would change.
struct Change<'a> {
    moves: Vec<(&'a Proc, usize, usize)>,
    /// Lag made good a second, in millions.
    gain: i64,
    price_ms: i64,
}

/// Before: nothing is to be evened out.
pub(crate) fn rotate(plan: &mut Plan) {
    if last_to_end_fill_all(plan) {
        return;
    }
    let mut left_ms = plan.view.turns_ms as i64;
    while !plan.is_full()
        && let Some(change) = best(plan, left_ms)
    {
        left_ms -= change.price_ms;
        for (proc, from, to) in change.moves {
            plan.go(proc, from, to, Cause::Turn);
        }
    }
}

/// If all stay where they are for as long as they have lived, those who will be behind the mean are as many as there are
/// cores: should all others end first, no core stands idle for it, and there is time yet to take turns among them. Six
/// equal programs on four nodes: two end at the time of one, and the other four, half done, have a node each.
fn last_to_end_fill_all(plan: &Plan) -> bool {
    let Some(mean_rate) = mean_rate(plan) else {
        return false;
    };
    let view = plan.view;
    let flies: HashMap<Pid, &NodeName> = view.flights.iter().map(|f| (f.pid, &f.to)).collect();
    let each = 0..plan.stands.len();
    let rates = each.map(|i| (plan.stands[i].name(), rate(plan, i)));
    let rates: HashMap<&NodeName, i64> = rates.collect();
    let computing = |p: &&Proc| p.demand >= DEMAND_MIN && !p.locked;
    let lag_then = |p: &Proc| {
        let place = flies.get(&p.pid).copied().unwrap_or(&p.place);
        let rate = rates.get(place).copied().unwrap_or(mean_rate);
        let horizon_ms = p.age_ms.max(HORIZON_MS_MIN) as i64;
        p.lag_ms + (mean_rate - rate) * horizon_ms / 1000
    };
    let lags: Vec<i64> = view.procs.iter().filter(computing).map(lag_then).collect();
    let mean = lags.iter().sum::<i64>() / (lags.len() as i64).max(1);
    let behind = lags.iter().filter(|lag| **lag > mean).count() as u64;
    let usable = (0..plan.stands.len()).filter(|&i| plan.takes_in(i));
    let cores: u64 = usable
        .map(|i| u64::from(plan.stands[i].slot.node.entry.cores))
        .sum();
    behind >= cores.max(1)
}

fn best<'a>(plan: &Plan<'a>, left_ms: i64) -> Option<Change<'a>> {
    let mean = mean_rate(plan)?;
    let settled = |i: &usize| {
        let stand = &plan.stands[*i];
        !stand.unsettled && !stand.free.is_empty()
    };
    let all: Vec<usize> = (0..plan.stands.len()).filter(settled).collect();
    let lags = |i: usize| plan.stands[i].free.iter().map(|p| p.lag_ms);
    let mut slow = all.clone();
    slow.sort_by_cached_key(|&i| -lags(i).max().unwrap_or(0));
    slow.truncate(LOOKED_MAX);
    let mut fast = all;
    fast.sort_by_cached_key(|&i| lags(i).min().unwrap_or(0));
    fast.truncate(LOOKED_MAX);
    let mut top: Option<Change<'a>> = None;
    for &from in &slow {
        for &to in &fast {
            let (low, high) = (rate(plan, from), rate(plan, to));
            if high * 100 <= low * FASTER_PERCENT {
                continue;
            }
            for change in [hop(plan, from, to, mean), swap(plan, from, to, mean)] {
                let Some(change) = change.filter(|c| c.price_ms <= left_ms) else {
                    continue;
                };
                let better = |t: &Change| change.gain * t.price_ms > t.gain * change.price_ms;
                if top.as_ref().is_none_or(better) {
                    top = Some(change);
                }
            }
        }
    }
    top
}

fn rate(plan: &Plan, i: usize) -> i64 {
    plan.stands[i].rate(work(plan, i))
}

/// All that runs there, with what the farm itself takes.
fn work(plan: &Plan, i: usize) -> u64 {
    plan.stands[i].steady() + plan.stands[i].kept
}

fn mean_rate(plan: &Plan) -> Option<i64> {
    let each = plan.stands.iter().enumerate();
    let (n, sum) = each.fold((0, 0), |(n, sum), (i, stand)| {
        let here = stand.free.len() as i64;
        (n + here, sum + here * rate(plan, i))
    });
    (n > 0).then(|| (sum / n).max(1))
}

/// The one who is farthest behind with the one who is farthest ahead.
fn swap<'a>(plan: &Plan<'a>, from: usize, to: usize, mean: i64) -> Option<Change<'a>> {
    let behind = *plan.stands[from]
        .free
        .iter()
        .max_by_key(|p| (p.lag_ms, p.pid))?;
    let ahead = *plan.stands[to]
        .free
        .iter()
        .min_by_key(|p| (p.lag_ms, p.pid))?;
    let gap = behind.lag_ms - ahead.lag_ms;
    let worth = is_worth(plan, gap, mean, behind);
    (worth && plan.fits(behind, to) && plan.fits(ahead, from)).then(|| Change {
        moves: vec![(behind, from, to), (ahead, to, from)],
        gain: gap * (rate(plan, to) - rate(plan, from)),
        price_ms: plan.price_ms(behind, to) + plan.price_ms(ahead, from),
    })
}

/// One goes to where it was better to be: who stays behind is better off, who is there is worse.
fn hop<'a>(plan: &Plan<'a>, from: usize, to: usize, mean: i64) -> Option<Change<'a>> {
    let (source, target) = (&plan.stands[from], &plan.stands[to]);
    let one = *source.free.iter().min_by_key(|p| (p.lag_ms, p.pid))?;
    let left = source.rate(work(plan, from).saturating_sub(one.demand));
    let joined = target.rate(work(plan, to) + one.demand);
    let (low, high) = (rate(plan, from), rate(plan, to));
    let counts = (source.free.len() as i64, target.free.len() as i64);
    let before = counts.0 * low + counts.1 * high;
    let after = (counts.0 - 1) * left + (counts.1 + 1) * joined;
    // Nothing is lost by it, and nobody is slower than somebody was before.
    if after * 100 < before * 99 || joined * 100 < low * 99 || counts.0 < 2 {
        return None;
    }
    let sum = |of: &[&Proc]| of.iter().map(|p| p.lag_ms).sum::<i64>();
    let staying = sum(&source.free) - one.lag_ms;
    let gain =
        staying * (left - low) + sum(&target.free) * (joined - high) + one.lag_ms * (joined - low);
    let risen = (counts.0 - 1) * (left - low) + (joined - low).max(0);
    let behind = source.free.iter().filter(|p| p.pid != one.pid);
    let behind = *behind.max_by_key(|p| p.lag_ms)?;
    let worth = risen > 0 && is_worth(plan, gain / risen, mean, behind);
    (worth && plan.fits(one, to)).then(|| Change {
        moves: vec![(one, from, to)],
        gain,
        price_ms: plan.price_ms(one, to),
    })
}

/// Is a difference of `gap` milliseconds of a standard core felt by `behind`?
fn is_worth(plan: &Plan, gap: i64, mean: i64, behind: &Proc) -> bool {
    let policy = plan.policy;
    let felt_ms = gap * 1000 / mean;
    let least = policy.turn_ms_min.max(behind.age_ms / policy.turns_each);
    felt_ms >= least as i64
}

/// What one of ours has got in a time, as its place tells.
pub(crate) struct Share {
    pub pid: Pid,
    /// Microseconds of a standard core, and what all got on average.
    pub own_us: i64,
    pub mean_us: i64,
    /// … of a second, thousandths of a standard core.
    pub mean_milli: i64,
    /// Of a whole core where it is.
    pub core_speed: u64,
}

/// Of each of ours in `past_ms`. Those who do not compute, or cannot move, take no part.
pub(crate) fn shares(view: &View, policy: &Policy, past_ms: u64) -> Vec<Share> {
    let takes_part = |p: &&Proc| p.demand >= DEMAND_MIN && !p.locked;
    let mut here: HashMap<&NodeName, u64> = HashMap::new();
    for proc in &view.procs {
        *here.entry(&proc.place).or_default() += proc.demand;
    }
    let places: HashMap<&NodeName, (i64, u64)> = slots(view, policy)
        .into_iter()
        .map(|slot| {
            let ours = here.get(slot.name()).copied().unwrap_or(0);
            let work = slot.node.steady + view.kept_at(slot.name()) + ours;
            let name = &slot.node.entry.node;
            (name, (slot.rate_of(work) as i64, slot.core_speed()))
        })
        .collect();
    let each: Vec<(Pid, (i64, u64))> = view
        .procs
        .iter()
        .filter(takes_part)
        .filter_map(|p| Some((p.pid, places.get(&p.place).copied()?)))
        .collect();
    let sum: i64 = each.iter().map(|(_, (rate, _))| rate).sum();
    let mean_milli = sum / (each.len() as i64).max(1);
    let past = past_ms as i64;
    // Microseconds: what a short step adds is not lost.
    let share = |(pid, (rate, core_speed))| Share {
        pid,
        own_us: rate * past,
        mean_us: mean_milli * past,
        mean_milli,
        core_speed,
    };
    each.into_iter().map(share).collect()
}

/// Power of the nodes where ours compute, thousandths of a standard core.
pub(crate) fn power_milli(view: &View, policy: &Policy) -> u64 {
    let used: HashSet<&NodeName> = view.procs.iter().map(|p| &p.place).collect();
    let slots = slots(view, policy);
    let used = slots.iter().filter(|slot| used.contains(slot.name()));
    used.map(|slot| slot.node.entry.power_milli()).sum()
}
