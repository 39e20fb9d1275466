//! Chooses where a fresh program starts, at its exec stop, before its memory grows.

use crate::cost::{Slot, can_run, left_kib, reachable, slots};
use crate::file_use::Traffic;
use crate::loss::Losses;
use crate::{DEMAND_FULL, Kind, Policy, View};
use armento_gossip::CpuSet;
use armento_model::{Hint, NodeName};
use std::cmp::Reverse;

/// Memory assumed for a program about which nothing is known: the size of an ordinary command. The image at an exec
/// stop is 12 to 16 KB.
const FRESH_KIB: u64 = 16 * 1024;

/// A program about to start is sent away only if another node is better by more than this much background work at home,
/// hundredths: below one process, so that counts stay even.
const HOME_BONUS: u64 = DEMAND_FULL / 2;

/// What is known about a program at its exec stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub uid: u32,
    pub need_kib: u64,
    /// CPU features it needs if not all of home's (`--portable`).
    pub needs: Option<CpuSet>,
    pub hint: Option<Hint>,
    /// What programs of its name do with files of their home; nothing if that is unknown.
    pub files: Traffic,
    /// How many other programs are about to start at this home: starting them is work of home, which may well keep the
    /// last of them.
    pub begin: u64,
    /// CPU time that it will probably use, if that is known.
    pub expected_ms: Option<u64>,
    /// Home is being drained: it begins here only if no other node takes it.
    pub leaves: bool,
}

impl Fresh {
    /// Its start elsewhere would cost more than it is worth.
    pub fn is_short(&self, policy: &Policy) -> bool {
        policy.kind == Kind::Armento && self.expected_ms.is_some_and(|ms| ms <= policy.short_ms)
    }
}

impl Default for Fresh {
    fn default() -> Fresh {
        Fresh {
            uid: 0,
            need_kib: FRESH_KIB,
            needs: None,
            hint: None,
            files: Traffic::default(),
            begin: 0,
            expected_ms: None,
            leaves: false,
        }
    }
}

/// The node where a fresh program should run; `None` and this node's own name both mean here. A caller that follows the
/// advice must tell the ledger, so that the next call counts this program.
pub fn place(view: &View, policy: &Policy, fresh: &Fresh) -> Option<NodeName> {
    if view.own().is_none() || view.flights.len() >= policy.flights_max(view.nodes.len()) {
        return None;
    }
    let fits = |slot: &Slot| {
        let home = *slot.name() == view.me;
        (home && !fresh.leaves)
            || (!home
                && fresh.hint != Some(Hint::Io)
                && reachable(view, policy, slot.node, fresh.uid)
                && can_run(view, slot.node, fresh.needs.as_ref())
                && slot.has_room(policy, fresh.need_kib))
    };
    let open: Vec<Slot> = slots(view, policy).into_iter().filter(fits).collect();
    // Memory before everything.
    let home = |slot: &Slot| *slot.name() == view.me && slot.has_room(policy, fresh.need_kib);
    if fresh.is_short(policy) && open.iter().any(home) {
        return None;
    }
    match policy.kind {
        Kind::None => None,
        Kind::Static => next_in_turn(view, &open),
        Kind::Mosix | Kind::Armento => least_loaded(view, &open, policy, fresh),
    }
}

/// PAPER: PVM assigns its tasks to the hosts in order, whatever their load or speed.
fn next_in_turn(view: &View, open: &[Slot]) -> Option<NodeName> {
    let n = view.placements.checked_rem(open.len() as u64)?;
    Some(open[n as usize].name().clone())
}

/// How full a node would be with `fresh`, percent: of its cores or its memory, whichever is fuller.
fn fill_percent(slot: &Slot, fresh: &Fresh) -> u64 {
    let entry = &slot.node.entry;
    let full = u64::from(entry.cores.max(1)) * DEMAND_FULL;
    let cores = (slot.work + DEMAND_FULL).min(full) * 100 / full;
    let left = left_kib(slot.node, slot.flying_kib).saturating_sub(fresh.need_kib);
    let used = entry.mem_total_kib.saturating_sub(left);
    cores.max(used * 100 / entry.mem_total_kib.max(1))
}

fn least_loaded(view: &View, open: &[Slot], policy: &Policy, fresh: &Fresh) -> Option<NodeName> {
    let packs = policy.packing_percent > 0;
    let home_cost = open.iter().find(|slot| *slot.name() == view.me);
    let losses = Losses::new(
        view,
        policy,
        home_cost.map_or(10_000, |home| home.cost_with(0)),
    );
    let asks = match fresh.hint {
        Some(Hint::Cpu) => Traffic::default(),
        _ => fresh.files,
    };
    let price = |slot: &&Slot| {
        let home = *slot.name() == view.me;
        let bonus = if home {
            slot.node.others.min(HOME_BONUS)
        } else {
            0
        };
        let begin = if home { fresh.begin * DEMAND_FULL } else { 0 };
        let work = slot.work - bonus + begin + DEMAND_FULL;
        let spare = (u64::from(slot.node.entry.cores) * DEMAND_FULL).saturating_sub(work);
        let far = match packs {
            true => fill_percent(slot, fresh).abs_diff(policy.packing_percent),
            false => 0,
        };
        // Equal: home, where no call is forwarded; then the one closest to the wanted fill, or the emptier; then by
        // tie-breaking order.
        // A standard core's second costs 10,000.
        let cost = slot.cost_of(work) + losses.of_home(asks, slot.node) / 100;
        (cost, !home, far, Reverse(spare), slot.turn)
    };
    open.iter()
        .min_by_key(price)
        .map(|slot| slot.name().clone())
}
