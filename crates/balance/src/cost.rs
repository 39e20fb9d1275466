//! What it costs to run somewhere, and whether there is room.

use crate::{DEMAND_FULL, Node, Policy, Proc, View};
use armento_gossip::{CpuSet, STANDARD_SPEED};
use armento_model::{Hint, NodeName, Pid};
use std::collections::HashMap;

/// Memory of a host and its supervision, besides the body's own pages.
const HOST_KIB: u64 = 8 * 1024;

/// Work of ours on every node, flights counted where they land, hundredths.
pub(crate) fn ours(view: &View) -> HashMap<&NodeName, u64> {
    let each = view.flights.iter();
    let mut flights: HashMap<Pid, &NodeName> = each.map(|f| (f.pid, &f.to)).collect();
    let mut sum = HashMap::new();
    for proc in &view.procs {
        let place = flights.remove(&proc.pid).unwrap_or(&proc.place);
        *sum.entry(place).or_insert(0) += proc.demand;
    }
    // Programs that were placed and have not been seen yet.
    for to in flights.into_values() {
        *sum.entry(to).or_insert(0) += DEMAND_FULL;
    }
    sum
}

/// Memory that those under way to each node will take, KiB.
pub(crate) fn flying_kib(view: &View) -> HashMap<&NodeName, u64> {
    let mut sum = HashMap::new();
    for flight in &view.flights {
        *sum.entry(&flight.to).or_insert(0) += flight.need_kib;
    }
    sum
}

/// Memory of those under way from each node: it will be free there, KiB.
pub(crate) fn leaving_kib(view: &View) -> HashMap<&NodeName, u64> {
    let to: HashMap<Pid, &NodeName> = view.flights.iter().map(|f| (f.pid, &f.to)).collect();
    let mut sum = HashMap::new();
    for proc in &view.procs {
        if to.get(&proc.pid).is_some_and(|to| **to != proc.place) {
            *sum.entry(&proc.place).or_insert(0) += proc.rss_kib;
        }
    }
    sum
}

/// A node with what a decision weighs.
pub(crate) struct Slot<'a> {
    pub node: &'a Node,
    /// Its speed, or home's where the two cannot be told apart.
    speed: u32,
    /// All work there, hundredths.
    pub work: u64,
    /// Ties between equal targets are broken by turns that begin with the home itself, so that
    /// all homes do not choose the same one.
    pub turn: usize,
    /// Memory that those under way to it will take, KiB.
    pub flying_kib: u64,
}

impl Slot<'_> {
    pub fn name(&self) -> &NodeName {
        &self.node.entry.node
    }

    /// What tells nodes of equal work apart.
    pub fn make(&self) -> (u32, u32) {
        (self.node.entry.cores, self.speed)
    }

    /// Speed of a whole core: what a process does in a second of CPU time, as far as it can be told apart.
    pub fn core_speed(&self) -> u64 {
        self.node.entry.core_speed_of(self.speed)
    }

    /// Room for `need` with the reserve untouched.
    pub fn has_room(&self, policy: &Policy, need: u64) -> bool {
        left_kib(self.node, self.flying_kib) >= need + reserve_kib(self.node, policy)
    }

    /// See [`cost`], with `more` work than now.
    pub fn cost_with(&self, more: u64) -> u64 {
        self.cost_of(self.work + more)
    }

    /// What one process gets with so much work in all, thousandths of a standard core.
    pub fn rate_of(&self, work: u64) -> u64 {
        // cost: 10,000 is a standard core for oneself.
        10_000_000 / self.cost_of(work).max(1)
    }

    /// See [`cost`], with so much work in all.
    pub fn cost_of(&self, work: u64) -> u64 {
        cost(self.node.entry.cores, self.speed, work)
    }
}

/// All nodes, in order of turns: this one, then by name.
pub(crate) fn slots<'a>(view: &'a View, policy: &Policy) -> Vec<Slot<'a>> {
    let (ours, flying) = (ours(view), flying_kib(view));
    let own = view.own().map_or((STANDARD_SPEED, 0), |node| {
        (node.entry.speed, node.entry.kind)
    });
    let mut nodes: Vec<&Node> = view.nodes.iter().collect();
    nodes.sort_by_key(|node| (node.entry.node < view.me, &node.entry.node));
    let slot = |(turn, node): (usize, &'a Node)| Slot {
        node,
        speed: told_apart((node.entry.speed, node.entry.kind), own, policy),
        work: node.others + ours.get(&node.entry.node).copied().unwrap_or(0),
        turn,
        flying_kib: flying.get(&node.entry.node).copied().unwrap_or(0),
    };
    nodes.into_iter().enumerate().map(slot).collect()
}

/// A node's speed, or `own` when the difference may be the measurement's. Both with their kind.
fn told_apart((speed, kind): (u32, u32), own: (u32, u32), policy: &Policy) -> u32 {
    let (low, high) = (u64::from(speed.min(own.0)), u64::from(speed.max(own.0)));
    let noise_percent = if kind != 0 && kind == own.1 {
        policy.speed_alike_percent
    } else {
        policy.speed_noise_percent
    };
    if high * 100 <= low * (100 + noise_percent) {
        own.0
    } else {
        speed
    }
}

/// How long one unit of work takes where `work` hundredths share so many cores of that speed;
/// 10,000 = a standard core for oneself. Cores beyond the number of processes help nobody.
pub(crate) fn cost(cores: u32, speed: u32, work: u64) -> u64 {
    let cores = u64::from(cores.max(1));
    let speed = u64::from(speed.max(1));
    work.max(DEMAND_FULL * cores) * 100 * u64::from(STANDARD_SPEED) / (cores * speed)
}

/// What a body of `rss_kib` takes at the target: it also grows while it travels.
pub(crate) fn need_kib(rss_kib: u64) -> u64 {
    rss_kib + rss_kib / 8 + HOST_KIB
}

/// What a move of one of `me`'s costs, milliseconds of a standard core: both ends' work, the bytes, and a host where
/// there is none for it yet.
pub(crate) fn price_ms(proc: &Proc, to: &NodeName, me: &NodeName, policy: &Policy) -> i64 {
    let bytes_us = proc.rss_kib * policy.move_us_per_mib / 1024;
    let first_us = match to == me || proc.known.contains(to) {
        true => 0,
        false => policy.first_us,
    };
    ((policy.move_us + first_us + bytes_us) / 1000).max(1) as i64
}

/// Memory left on `node` when all that flies there has landed, KiB.
pub(crate) fn left_kib(node: &Node, flying_kib: u64) -> u64 {
    node.entry
        .mem_free_kib
        .saturating_sub(node.taken_kib)
        .saturating_sub(flying_kib)
}

pub(crate) fn reserve_kib(node: &Node, policy: &Policy) -> u64 {
    policy.reserve_kib(node.entry.mem_total_kib)
}

/// Room for `need` with the reserve untouched.
pub(crate) fn has_room(view: &View, policy: &Policy, node: &Node, need: u64) -> bool {
    let flying = view.flights.iter().filter(|f| f.to == node.entry.node);
    let flying_kib = flying.map(|flight| flight.need_kib).sum();
    left_kib(node, flying_kib) >= need + reserve_kib(node, policy)
}

/// Whether this home may send anything there, whoever's and however small.
pub(crate) fn takes_in(view: &View, policy: &Policy, slot: &Slot) -> bool {
    let node = slot.node;
    let heard = node.age_ms <= policy.age_ms_max(view.nodes.len())
        && !node.open.is_nobody()
        && !node.entry.shut;
    (node.entry.node == view.me || heard) && slot.has_room(policy, need_kib(0))
}

/// Whether this home may send anything of `uid` there at all. Home itself is always open to its own.
pub(crate) fn reachable(view: &View, policy: &Policy, node: &Node, uid: u32) -> bool {
    let heard = || node.age_ms <= policy.age_ms_max(view.nodes.len()) && !node.entry.shut;
    trusted(view, node, uid) && (node.entry.node == view.me || heard())
}

pub(crate) fn trusted(view: &View, node: &Node, uid: u32) -> bool {
    node.entry.node == view.me || node.open.has(uid)
}

/// Whether the processor of `node` can run what started with `needs`, or else with all of home's.
pub(crate) fn can_run(view: &View, node: &Node, needs: Option<&CpuSet>) -> bool {
    let home = view.own().map(|own| &own.entry.cpu);
    node.entry.node == view.me
        || needs
            .or(home)
            .is_none_or(|needed| node.entry.cpu.covers(needed))
}

/// Thousandths of its time that a body spends on forwarded calls.
pub(crate) fn forward_permille(proc: &Proc, policy: &Policy) -> u64 {
    if proc.hint == Some(Hint::Cpu) {
        return 0;
    }
    proc.forwarded_per_s * policy.forward_us / 1000
}

impl View {
    /// How slow it is at `node`: work over power, hundredths of a standard process. What a policy's
    /// move states as [`crate::Need::load_there`].
    pub fn load_at(&self, node: &NodeName) -> Option<u64> {
        let work = ours(self).get(node).copied().unwrap_or(0);
        let entry = |node: &Node| (node.entry.cores, node.entry.speed, node.others + work);
        let (cores, speed, work) = self.node(node).map(entry)?;
        Some(cost(cores, speed, work) / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_slowness_for_one_process() {
        let check = |speed, cores, work, want| {
            let got = cost(cores, speed, work);
            assert_eq!(got, want, "speed {speed} cores {cores} work {work}");
        };
        check(10_000, 1, 0, 10_000);
        check(10_000, 1, 100, 10_000);
        check(10_000, 1, 300, 30_000);
        check(4_000, 1, 100, 25_000);
        check(10_000, 4, 100, 10_000);
        check(10_000, 4, 400, 10_000);
        check(10_000, 4, 800, 20_000);
        check(0, 0, 100, 100_000_000);
    }

    #[test]
    fn speeds_that_cannot_be_told_apart_are_one() {
        let check = |speed, kind, want| {
            let got = told_apart((speed, kind), (10_000, 5), &Policy::default());
            assert_eq!(got, want, "{speed} of kind {kind}");
        };
        // The same processor by its own words.
        check(20_000, 5, 10_000);
        check(20_001, 5, 20_001);
        check(5_000, 5, 10_000);
        check(4_000, 5, 4_000);
        check(10_000, 0, 10_000);
        check(12_000, 0, 10_000);
        check(12_001, 6, 12_001);
        check(8_334, 6, 10_000);
        check(8_333, 6, 8_333);
        check(0, 0, 0);
    }
}
