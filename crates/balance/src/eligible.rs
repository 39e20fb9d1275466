//! Whether a process may move, whether a node suits it, and how to write down a move.

use crate::cost::{can_run, cost, ours, reachable};
use crate::loss::{Losses, lost_permille};
use crate::policy::{Kind, Policy};
use crate::view::{Cause, Grounds, Move, Node, Proc, View};
use armento_gossip::Tick;
use armento_model::{Hint, Stay};

/// Why `proc` may not be moved now, whatever the target. `flies`: a move of it is in progress.
pub(crate) fn bound(
    view: &View,
    policy: &Policy,
    proc: &Proc,
    flies: bool,
    now: Tick,
) -> Option<Stay> {
    let shares = proc.group.map(|_| Stay::SharedMemory);
    bound_alone(view, policy, proc, flies, now).or(shares)
}

/// The same, whether or not it shares memory.
pub(crate) fn bound_alone(
    view: &View,
    policy: &Policy,
    proc: &Proc,
    flies: bool,
    now: Tick,
) -> Option<Stay> {
    if proc.locked {
        return Some(Stay::Locked);
    }
    if let Some((stay, until)) = proc.hold
        && now < until
    {
        return Some(stay);
    }
    if flies {
        return Some(Stay::Busy);
    }
    let short = view.typical_ms.is_some() && proc.cpu_ms < policy.used_ms_min;
    if now.since(proc.arrived) < policy.residence_ms || short {
        return Some(Stay::TooYoung);
    }
    None
}

/// Whether it calls home so often that another processor is not worth leaving home. The default policy compares
/// processors and calls instead, for each target.
pub(crate) fn belongs_home(view: &View, policy: &Policy, proc: &Proc) -> bool {
    let calls = || {
        policy.kind != Kind::Armento
            && calls_permille(view, policy, proc) > policy.forward_permille_max
    };
    proc.place == view.me && (proc.hint == Some(Hint::Io) || calls())
}

/// Thousandths of its time that a process spends on calls to its home when it has a standard core to itself, on the
/// nearest other node.
pub(crate) fn calls_permille(view: &View, policy: &Policy, proc: &Proc) -> u64 {
    if proc.files.is_none() {
        return 0;
    }
    let losses = losses(view, policy);
    let others = view.nodes.iter().filter(|node| node.entry.node != view.me);
    let least = others.map(|node| losses.us(proc, node)).min();
    lost_permille(1000, least.unwrap_or(0))
}

fn losses<'a>(view: &'a View, policy: &'a Policy) -> Losses<'a> {
    let home_cost = view.own().map_or(10_000, |own| {
        let work = own.others + ours(view).get(&view.me).copied().unwrap_or(0);
        cost(own.entry.cores, own.entry.speed, work)
    });
    Losses::new(view, policy, home_cost)
}

pub(crate) fn suits(view: &View, policy: &Policy, to: &Node, proc: &Proc) -> bool {
    reachable(view, policy, to, proc.uid) && can_run(view, to, proc.needs.as_ref())
}

/// `rates`: now, and after the move; `losses` likewise.
pub(crate) fn grounds(
    cause: Cause,
    rates: (u64, u64),
    losses: (u64, u64),
    proc: &Proc,
    price_ms: i64,
) -> Grounds {
    Grounds {
        cause,
        now_milli: rates.0,
        then_milli: rates.1,
        price_ms: price_ms as u64,
        lag_ms: proc.lag_ms,
        lost_now_permille: lost_permille(rates.0 as i64, losses.0),
        lost_then_permille: lost_permille(rates.1 as i64, losses.1),
    }
}

pub(crate) fn order(proc: &Proc, to: &Node, grounds: Grounds) -> Move {
    Move {
        pid: proc.pid,
        from: proc.place.clone(),
        to: to.entry.node.clone(),
        grounds,
    }
}
