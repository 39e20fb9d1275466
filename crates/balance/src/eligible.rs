//! Whether a process may move, whether a node suits it, and how to write down a move.

use crate::cost::{can_run, forward_permille, reachable};
use crate::policy::Policy;
use crate::view::{Cause, Grounds, Move, Node, Proc, View};
use armento_gossip::Tick;
use armento_model::{Hint, Stay};

/// Why `proc` may not be moved now, whatever the target. `flies`: a move of it is in progress.
pub(crate) fn bound(policy: &Policy, proc: &Proc, flies: bool, now: Tick) -> Option<Stay> {
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
    if now.since(proc.arrived) < policy.residence_ms || proc.cpu_ms < policy.used_ms_min {
        return Some(Stay::TooYoung);
    }
    None
}

/// Whether it calls home so often that another processor is not worth leaving home.
pub(crate) fn belongs_home(view: &View, policy: &Policy, proc: &Proc) -> bool {
    let calls = || forward_permille(proc, policy) > policy.forward_permille_max;
    proc.place == view.me && (proc.hint == Some(Hint::Io) || calls())
}

pub(crate) fn suits(view: &View, policy: &Policy, to: &Node, proc: &Proc) -> bool {
    reachable(view, policy, to, proc.uid) && can_run(view, to, proc.needs.as_ref())
}

/// `rates`: now, and after the move.
pub(crate) fn grounds(cause: Cause, rates: (u64, u64), proc: &Proc, price_ms: i64) -> Grounds {
    Grounds {
        cause,
        now_milli: rates.0,
        then_milli: rates.1,
        price_ms: price_ms as u64,
        lag_ms: proc.lag_ms,
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
