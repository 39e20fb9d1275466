//! Admission at the target: the home decided with older knowledge, the target has newer.

use crate::cost::{cost, has_room, need_kib, ours};
use crate::{DEMAND_FULL, Policy, View};
use armento_gossip::CpuSet;
use armento_model::Stay;

/// A guest that another home wants to send here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Memory the process uses now, KiB.
    pub rss_kib: u64,
    /// CPU features it started with, if known.
    pub cpu: Option<CpuSet>,
    /// Its slowness there: work of its node over power, hundredths of a standard process. Set by a policy's move; a
    /// user's explicit move leaves it out and is not weighed.
    pub load_there: Option<u64>,
}

/// Whether this node accepts a guest. `view` is this node's own; its `view.flights` and `taken_kib` count guests that
/// were admitted and have not arrived.
pub fn admit(view: &View, policy: &Policy, need: &Need) -> Result<(), Stay> {
    let own = view.own().ok_or(Stay::NoRoom)?;
    if own.open.is_none() {
        return Err(Stay::NotTrusted);
    }
    if need
        .cpu
        .as_ref()
        .is_some_and(|needed| !own.entry.cpu.covers(needed))
    {
        return Err(Stay::CpuFeatures);
    }
    let guests_max = policy.guests_per_core_max * u64::from(own.entry.cores.max(1));
    let full = u64::from(own.entry.guests) >= guests_max;
    if full || !has_room(view, policy, own, need_kib(need.rss_kib)) {
        return Err(Stay::NoRoom);
    }
    let ours = ours(view).get(&view.me).copied().unwrap_or(0);
    let here = cost(
        own.entry.cores,
        own.entry.speed,
        own.others + ours + DEMAND_FULL,
    ) / 100;
    if need.load_there.is_some_and(|there| here >= there) {
        return Err(Stay::WouldNotPay);
    }
    Ok(())
}
