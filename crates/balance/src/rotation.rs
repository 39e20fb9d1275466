//! Rotation: equal progress for all where processors cannot be divided evenly.
//!
//! Seventeen processes on sixteen nodes leave two of them at half speed. A process that is ahead swaps places with one
//! that is behind; between equal nodes one move suffices: one of a pair goes to the node of a process that was alone.

use crate::cost::slots;
use crate::plan::{DEMAND_MIN, Plan};
use crate::{Cause, Policy, Proc, View};
use armento_model::{NodeName, Pid};
use std::collections::{HashMap, HashSet};

/// Difference in speed between two places from which a swap is worth it, percent.
const FASTER_PERCENT: i64 = 108;
/// In farms with more slow or fast nodes only those with the largest lags are examined.
const LOOKED_MAX: usize = 64;

/// The circumstances of its start determine a young process's lag: the prediction covers at least this time.
const HORIZON_MS_MIN: u64 = 3_000;

/// A possible rotation.
struct Change<'a> {
    moves: Vec<(&'a Proc, usize, usize)>,
    /// Gain in speed weighted by lag: milliseconds times thousandths of a standard core, summed.
    gain: i64,
    price_ms: i64,
}

/// Before: no load is left to even out.
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

/// Whether, if all stay where they are for as long as they have lived, at least as many processes will be behind the
/// mean as there are cores: even if all others end first, no core is idle then, and there is still time to rotate among
/// them. Six equal programs on four nodes: two end at the time of one, and the other four, half done, get a node each.
fn last_to_end_fill_all(plan: &Plan) -> bool {
    let Some(mean_rate) = mean_rate(plan) else {
        return false;
    };
    let view = plan.view;
    let flies: HashMap<Pid, &NodeName> = view.flights.iter().map(|f| (f.pid, &f.to)).collect();
    let each = 0..plan.nodes.len();
    let rates = each.map(|i| (plan.nodes[i].name(), rate(plan, i)));
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
    let usable = (0..plan.nodes.len()).filter(|&i| plan.takes_in(i));
    let cores: u64 = usable
        .map(|i| u64::from(plan.nodes[i].slot.node.entry.cores))
        .sum();
    behind >= cores.max(1)
}

fn best<'a>(plan: &Plan<'a>, left_ms: i64) -> Option<Change<'a>> {
    let mean = mean_rate(plan)?;
    let settled = |i: &usize| {
        let planned = &plan.nodes[*i];
        !planned.unsettled && !planned.free.is_empty()
    };
    let all: Vec<usize> = (0..plan.nodes.len()).filter(settled).collect();
    let lags = |i: usize| plan.nodes[i].free.iter().map(|p| p.lag_ms);
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
            // What other programs leave goes up and down: between two such places turns would follow that.
            let left_over = |i: usize| plan.nodes[i].slot.comes_first();
            if high * 100 <= low * FASTER_PERCENT || left_over(from) && left_over(to) {
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
    plan.nodes[i].rate(work(plan, i))
}

/// All work there, with the farm's overhead.
fn work(plan: &Plan, i: usize) -> u64 {
    plan.nodes[i].steady() + plan.nodes[i].overhead
}

fn mean_rate(plan: &Plan) -> Option<i64> {
    let each = plan.nodes.iter().enumerate();
    let (n, sum) = each.fold((0, 0), |(n, sum), (i, planned)| {
        let here = planned.free.len() as i64;
        (n + here, sum + here * rate(plan, i))
    });
    (n > 0).then(|| (sum / n).max(1))
}

/// Swaps the process that is farthest behind with the one that is farthest ahead.
fn swap<'a>(plan: &Plan<'a>, from: usize, to: usize, mean: i64) -> Option<Change<'a>> {
    let behind = *plan.nodes[from]
        .free
        .iter()
        .max_by_key(|p| (p.lag_ms, p.pid))?;
    let ahead = *plan.nodes[to]
        .free
        .iter()
        .min_by_key(|p| (p.lag_ms, p.pid))?;
    let gap = behind.lag_ms - ahead.lag_ms;
    let worth = is_worth(plan, gap, mean, behind);
    let bears = || plan.bears(behind, from, to) && plan.bears(ahead, to, from);
    (worth && bears() && plan.fits(behind, to) && plan.fits(ahead, from)).then(|| Change {
        moves: vec![(behind, from, to), (ahead, to, from)],
        gain: gap * (rate(plan, to) - rate(plan, from)),
        price_ms: plan.price_ms(behind, to) + plan.price_ms(ahead, from),
    })
}

/// One process goes to a better place: those left behind gain, those at the target lose.
fn hop<'a>(plan: &Plan<'a>, from: usize, to: usize, mean: i64) -> Option<Change<'a>> {
    let (source, target) = (&plan.nodes[from], &plan.nodes[to]);
    let one = *source.free.iter().min_by_key(|p| (p.lag_ms, p.pid))?;
    let left = source.rate(work(plan, from).saturating_sub(one.demand));
    let joined = target.rate(work(plan, to) + one.demand);
    let (low, high) = (rate(plan, from), rate(plan, to));
    let counts = (source.free.len() as i64, target.free.len() as i64);
    let before = counts.0 * low + counts.1 * high;
    let after = (counts.0 - 1) * left + (counts.1 + 1) * joined;
    // Nothing is lost by it, and no process becomes slower than the slowest was before.
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
    (worth && plan.bears(one, from, to) && plan.fits(one, to)).then(|| Change {
        moves: vec![(one, from, to)],
        gain,
        price_ms: plan.price_ms(one, to),
    })
}

/// Whether a difference of `gap` milliseconds of a standard core matters to `behind`.
fn is_worth(plan: &Plan, gap: i64, mean: i64, behind: &Proc) -> bool {
    let policy = plan.policy;
    let felt_ms = gap * 1000 / mean;
    let least = policy.turn_ms_min.max(behind.age_ms / policy.turns_each);
    felt_ms >= least as i64
}

/// Estimated progress of one process of this home in a period, from its place.
pub(crate) struct Share {
    pub pid: Pid,
    /// Microseconds of a standard core, and the average of all.
    pub own_us: i64,
    pub mean_us: i64,
    /// … in a second, thousandths of a standard core.
    pub mean_milli: i64,
    /// Speed of a whole core at its place.
    pub core_speed: u64,
}

/// For each process of this home in `past_ms`. Those that do not compute, or cannot move, are left out.
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
            let work = slot.steady + view.overhead_at(slot.name()) + ours;
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
    // In microseconds, so that a short step is not rounded away.
    let share = |(pid, (rate, core_speed))| Share {
        pid,
        own_us: rate * past,
        mean_us: mean_milli * past,
        mean_milli,
        core_speed,
    };
    each.into_iter().map(share).collect()
}

/// Power of the nodes on which this home's processes compute, thousandths of a standard core.
pub(crate) fn power_milli(view: &View, policy: &Policy) -> u64 {
    let used: HashSet<&NodeName> = view.procs.iter().map(|p| &p.place).collect();
    let slots = slots(view, policy);
    let used = slots.iter().filter(|slot| used.contains(slot.name()));
    used.map(|slot| slot.node.entry.power_milli()).sum()
}
