//! A home that is being drained: its own processes leave it, wherever another node has room.
//!
//! From: `noded/src/policy/act.rs`, which also orders the moves.

use crate::Policy;
use crate::cost::{Slot, need_kib, price_ms, slots};
use crate::eligible::{grounds, order, suits};
use crate::view::{Cause, Flight, Move, Proc, View};
use crate::why::unplaced;
use armento_gossip::Tick;
use armento_model::{Pid, Stay};
use std::collections::{BTreeMap, HashSet};

/// What becomes of the processes that run at this home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// To be ordered now. Processes that share memory go together, ordered as a move of the first.
    pub moves: Vec<Move>,
    /// Those that stay, and why. [`Stay::Busy`] and [`Stay::TooYoung`] pass by themselves.
    pub stays: Vec<(Pid, Stay)>,
}

/// Chooses where the processes go that run at this home. Whether a move pays is not asked: an administrator wants the node
/// empty. Locked processes stay, and those that no other node can take.
pub fn drain(view: &View, policy: &Policy, now: Tick) -> Drained {
    let mut found = Drained::default();
    let mut view = view.clone();
    let here = |p: &&Proc| p.place == view.me;
    let mut together: BTreeMap<Pid, Vec<Proc>> = BTreeMap::new();
    for proc in view.procs.iter().filter(here) {
        let first = proc.group.unwrap_or(proc.pid);
        together.entry(first).or_default().push(proc.clone());
    }
    for members in together.into_values() {
        let flying: HashSet<Pid> = view.flights.iter().map(|f| f.pid).collect();
        let bound = |p: &Proc| bound(policy, p, flying.contains(&p.pid), now);
        let full = view.flights.len() >= policy.flights_max(view.nodes.len());
        let stay = match members.iter().find_map(bound) {
            Some(stay) => Some(stay),
            None if full => Some(Stay::Busy),
            None => match target(&view, policy, &members) {
                Some(chosen) => {
                    view.flights.extend(members.iter().map(|p| Flight {
                        pid: p.pid,
                        to: chosen.to.clone(),
                        need_kib: need_kib(p.rss_kib),
                        since: now,
                    }));
                    found.moves.push(chosen);
                    None
                }
                None => Some(nowhere(&view, policy, &members)),
            },
        };
        if let Some(stay) = stay {
            found.stays.extend(members.iter().map(|p| (p.pid, stay)));
        }
    }
    found
}

/// Why `proc` may not be moved now. `flies`: a move of it is in progress.
fn bound(policy: &Policy, proc: &Proc, flies: bool, now: Tick) -> Option<Stay> {
    let held = proc.hold.filter(|(_, until)| now < *until);
    match held {
        _ if proc.locked => Some(Stay::Locked),
        Some((stay, _)) => Some(stay),
        None if flies => Some(Stay::Busy),
        // Its pages are still arriving, or its program is being loaded.
        None if now.since(proc.arrived) < policy.residence_ms => Some(Stay::TooYoung),
        None => None,
    }
}

/// The node where these get on best, of those that have room for all of them.
fn target(view: &View, policy: &Policy, members: &[Proc]) -> Option<Move> {
    let slots = slots(view, policy);
    let rss_kib: u64 = members.iter().map(|p| p.rss_kib).sum();
    let demand: u64 = members.iter().map(|p| p.demand).sum();
    let takes_all = |to: &&Slot| {
        *to.name() != view.me
            && members.iter().all(|p| suits(view, policy, to.node, p))
            && to.has_room(policy, need_kib(rss_kib))
    };
    let to = slots
        .iter()
        .filter(takes_all)
        .min_by_key(|to| (to.cost_with(demand), to.turn))?;
    let first = members.first()?;
    let from = slots.iter().find(|slot| *slot.name() == view.me);
    let rates = (
        from.map_or(0, |slot| slot.rate_of(slot.work)),
        to.rate_of(to.work + demand),
    );
    let price = members
        .iter()
        .map(|p| price_ms(p, to.name(), &view.me, policy))
        .sum();
    let why = grounds(Cause::Drain, rates, (0, 0), first, price);
    Some(order(first, to.node, why))
}

/// Why none takes them. One that could take the first alone has no room for all.
fn nowhere(view: &View, policy: &Policy, members: &[Proc]) -> Stay {
    match unplaced(view, policy, &members[0]) {
        Stay::WouldNotPay => Stay::NoRoom,
        stay => stay,
    }
}
