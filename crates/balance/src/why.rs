//! Why a process is where it is, for `armento why`.

use crate::cost::{can_run, has_room, need_kib, reachable, slots, trusted};
use crate::decide::decide;
use crate::eligible::{belongs_home, bound};
use crate::loss::{Losses, lost_permille, slowed};
use crate::{Node, Policy, Proc, View};
use armento_gossip::{CpuSet, Tick};
use armento_model::{NodeName, Pid, Stay};

/// Why even a user may not send a program of this home to `to`: it would die there of an illegal instruction that
/// exists at home. A node that has not reported its features yet is assumed to have them. `needs`: the features needed
/// if not all of home's. After: the features that are missing there.
pub fn barred(view: &View, to: &NodeName, needs: Option<&CpuSet>) -> Option<(Stay, Vec<String>)> {
    let node = view.nodes.iter().find(|node| node.entry.node == *to)?;
    let told = !node.entry.cpu.vendor.is_empty();
    if !told || can_run(view, node, needs) {
        return None;
    }
    let needed = needs.or(view.own().map(|own| &own.entry.cpu))?;
    Some((Stay::CpuFeatures, node.entry.cpu.lacking(needed)))
}

/// The features that every reporting node has: the set with which a portable program starts.
pub fn common(view: &View) -> Option<CpuSet> {
    let own = view.own()?.entry.cpu.clone();
    let told = view.nodes.iter().map(|node| &node.entry.cpu);
    let told = told.filter(|cpu| !cpu.vendor.is_empty());
    Some(told.fold(own, |both, cpu| both.common(cpu)))
}

/// The price of being away from home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Where the process is, or the node where it would get on best.
    pub node: NodeName,
    /// Calls a second that wait for home from there, and bytes both ways.
    pub waits_per_s: u64,
    pub bytes_per_s: u64,
    /// The part of its time that it loses there, thousandths.
    pub lost_permille: u64,
}

/// What `pid` loses by being away, or what it would lose; `None` if nothing is known of its files.
pub fn away(view: &View, policy: &Policy, pid: Pid) -> Option<Away> {
    let proc = view.procs.iter().find(|proc| proc.pid == pid)?;
    let traffic = proc.files.home;
    if traffic.is_none() {
        return None;
    }
    let slots = slots(view, policy);
    let home = slots.iter().find(|slot| *slot.name() == view.me)?;
    let losses = Losses::new(view, policy, home.cost_with(0));
    let is_away = |proc: &Proc| proc.place != view.me;
    let others = slots.iter().filter(|slot| *slot.name() != view.me);
    let others = others.filter(|slot| !is_away(proc) || *slot.name() == proc.place);
    let each = others.map(|slot| {
        let more = if is_away(proc) { 0 } else { proc.demand };
        let rate = slot.rate_of(slot.work + more) as i64;
        let loss_us = losses.us(proc, slot.node);
        (
            slowed(rate, loss_us),
            lost_permille(rate, loss_us),
            slot.name(),
        )
    });
    let (progress, lost_permille, node) = each.max_by_key(|(progress, ..)| *progress)?;
    let second = |n: u64| n.saturating_mul(progress.max(0) as u64) / 1000;
    let (waits_per_s, bytes_per_s) = match is_away(proc) {
        true => (proc.rates.waits, proc.rates.bytes()),
        false => (second(traffic.waits), second(traffic.bytes)),
    };
    Some(Away {
        node: node.clone(),
        waits_per_s,
        bytes_per_s,
        lost_permille,
    })
}

/// Why the policy leaves `pid` where it is; `None` if it is unknown here or will move now.
pub fn why(view: &View, policy: &Policy, pid: Pid, now: Tick) -> Option<Stay> {
    let proc = view.procs.iter().find(|proc| proc.pid == pid)?;
    if let Some(stay) = bound(view, policy, proc, view.flies(pid).is_some(), now) {
        return Some(stay);
    }
    if decide(view, policy, now)
        .iter()
        .any(|chosen| chosen.pid == pid)
    {
        return None;
    }
    if belongs_home(view, policy, proc) {
        return Some(Stay::WouldNotPay);
    }
    Some(unplaced(view, policy, proc))
}

/// Why no other node than its own is a target for `proc`; [`Stay::WouldNotPay`] if one is.
pub(crate) fn unplaced(view: &View, policy: &Policy, proc: &Proc) -> Stay {
    let elsewhere = || {
        view.nodes
            .iter()
            .filter(|node| node.entry.node != proc.place)
    };
    let open = || elsewhere().filter(|node| reachable(view, policy, node, proc.uid));
    let able = || open().filter(|node| can_run(view, node, proc.needs.as_ref()));
    let roomy = |node: &Node| has_room(view, policy, node, need_kib(proc.rss_kib));
    if elsewhere().count() == 0 {
        Stay::NoRoom
    } else if elsewhere().all(|node| !trusted(view, node, proc.uid)) {
        Stay::NotTrusted
    } else if elsewhere().all(|node| node.entry.shut || !trusted(view, node, proc.uid)) {
        Stay::SwitchedOff
    } else if open().count() == 0 {
        Stay::LinkLost
    } else if able().count() == 0 {
        Stay::CpuFeatures
    } else if !able().any(roomy) {
        Stay::NoRoom
    } else {
        Stay::WouldNotPay
    }
}
