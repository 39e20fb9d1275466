//! The cost of running on a node, and whether it has room.

use crate::{DEMAND_FULL, Node, Policy, Proc, View};
use armento_gossip::{CpuSet, STANDARD_SPEED};
use armento_model::{NodeName, Pid};
use std::collections::HashMap;

/// Guests of at most this weight, where the node's own programs have 100 each, do not count beside them.
const YIELDS_ALL: u64 = 10;
/// Less work of others than this does not count as coming first, hundredths: daemons, short commands.
const FIRST_MIN: u64 = 10;
/// Memory of a host and its supervision, without the body's own pages.
const HOST_KIB: u64 = 8 * 1024;

/// Work of this home's processes on every node, moves counted at their target, hundredths.
pub(crate) fn ours(view: &View) -> HashMap<&NodeName, u64> {
    let each = view.flights.iter();
    let mut flights: HashMap<Pid, &NodeName> = each.map(|f| (f.pid, &f.to)).collect();
    let mut sum = HashMap::new();
    for proc in &view.procs {
        let place = flights.remove(&proc.pid).unwrap_or(&proc.place);
        *sum.entry(place).or_insert(0) += proc.demand;
    }
    // Programs that were placed and not yet reported.
    for to in flights.into_values() {
        *sum.entry(to).or_insert(0) += DEMAND_FULL;
    }
    sum
}

/// Memory that processes on their way to each node will take, KiB.
pub(crate) fn flying_kib(view: &View) -> HashMap<&NodeName, u64> {
    let mut sum = HashMap::new();
    for flight in &view.flights {
        *sum.entry(&flight.to).or_insert(0) += flight.need_kib;
    }
    sum
}

/// Memory that processes on their way from each node will free there, KiB.
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

/// A node with the figures that a decision weighs.
pub(crate) struct Slot<'a> {
    pub node: &'a Node,
    /// Its speed, or home's if the difference may be noise.
    speed: u32,
    /// … what is left of it beside the farm's own work there.
    left_speed: u32,
    /// All work there, hundredths.
    pub work: u64,
    /// … of it, what is not this home's and counts beside this home's processes; and what of that lasted.
    pub others: u64,
    pub steady: u64,
    /// … of it, what comes before this home's processes: programs of the node itself, where guests have a low weight.
    first: u64,
    /// Ties between equal targets are broken by an order that begins with the home itself, so that the homes do not all
    /// choose the same node.
    pub turn: usize,
    /// Memory that processes on their way to it will take, KiB.
    pub flying_kib: u64,
}

impl Slot<'_> {
    pub fn name(&self) -> &NodeName {
        &self.node.entry.node
    }

    /// The properties that distinguish nodes with equal work.
    pub fn make(&self) -> (u32, u32) {
        (self.node.entry.cores, self.left_speed)
    }

    /// Speed of a whole core: what a process does in a second of CPU time, up to noise.
    pub fn core_speed(&self) -> u64 {
        self.node.entry.core_speed_of(self.speed)
    }

    /// Whether `need` fits without using the reserve.
    pub fn has_room(&self, policy: &Policy, need: u64) -> bool {
        left_kib(self.node, self.flying_kib) >= need + reserve_kib(self.node, policy)
    }

    /// [`cost`] with `more` work than now.
    pub fn cost_with(&self, more: u64) -> u64 {
        self.cost_of(self.work + more)
    }

    /// The share of one process when the total work is `work`, thousandths of a standard core.
    pub fn rate_of(&self, work: u64) -> u64 {
        // cost: 10,000 is a standard core for one process.
        10_000_000 / self.cost_of(work).max(1)
    }

    /// [`cost`] when the total work is `work`.
    pub fn cost_of(&self, work: u64) -> u64 {
        let cores = u64::from(self.node.entry.cores.max(1));
        if self.first == 0 {
            return cost(self.node.entry.cores, self.left_speed, work);
        }
        let (left, ours) = (self.left(), self.beside_first(work));
        let alone = cost(self.node.entry.cores, self.left_speed, DEMAND_FULL * cores);
        alone * ours.max(left) / left
    }

    /// What programs of the node itself leave of its cores, hundredths; all of them where guests have the same weight.
    pub fn left(&self) -> u64 {
        let full = u64::from(self.node.entry.cores.max(1)) * DEMAND_FULL;
        full.saturating_sub(self.first).max(full / 100)
    }

    /// What programs of the node itself leave of its cores and nobody uses, where guests have a low weight, hundredths.
    pub fn gap(&self) -> u64 {
        match self.first {
            0 => 0,
            _ => self.left().saturating_sub(self.beside_first(self.work)),
        }
    }

    /// Whether other programs come before this home's processes there.
    pub fn comes_first(&self) -> bool {
        self.first > 0
    }

    /// Of `work` what does not come before this home's processes.
    pub fn beside_first(&self, work: u64) -> u64 {
        work.saturating_sub(self.first)
    }
}

/// All nodes in tie-breaking order: this one, then by name.
pub(crate) fn slots<'a>(view: &'a View, policy: &Policy) -> Vec<Slot<'a>> {
    let (mut ours, flying) = (ours(view), flying_kib(view));
    if view.weighs() {
        for proc in &view.procs {
            let more = view.weight(proc) - proc.demand;
            *ours.entry(view.whereabouts(proc)).or_insert(0) += more;
        }
    }
    let own = view.own().map_or((STANDARD_SPEED, 0), |node| {
        (node.entry.speed, node.entry.kind)
    });
    let mut nodes: Vec<&Node> = view.nodes.iter().collect();
    nodes.sort_by_key(|node| (node.entry.node < view.me, &node.entry.node));
    // With a low weight guests yield: at home they hardly count, and elsewhere others come first.
    let counts = match policy.guest_weight {
        ..=YIELDS_ALL => 0,
        weight => weight.min(100),
    };
    let yields = |work: u64| work * (100 - counts) / 100;
    let slot = |(turn, node): (usize, &'a Node)| {
        let home = node.entry.node == view.me;
        let (others, steady, first) = match (home, counts) {
            (true, _) => {
                let others = node.others - yields(node.guests).min(node.others);
                (others, node.steady.min(others), 0)
            }
            (false, 100) => (node.others, node.steady, 0),
            // A program that waits now computes again in a moment.
            (false, _) if node.mean >= FIRST_MIN => (node.mean, node.mean, yields(node.mean)),
            (false, _) => (node.others, node.steady, 0),
        };
        let speed = speed_up_to_noise((node.entry.speed, node.entry.kind), own, policy);
        let left_percent = 100 - view.busy_percent_at(&node.entry.node);
        Slot {
            node,
            speed,
            left_speed: (u64::from(speed) * left_percent / 100) as u32,
            work: others + ours.get(&node.entry.node).copied().unwrap_or(0),
            others,
            steady,
            first,
            turn,
            flying_kib: flying.get(&node.entry.node).copied().unwrap_or(0),
        }
    };
    nodes.into_iter().enumerate().map(slot).collect()
}

/// A node's speed, or `own` if the difference may be measurement noise. Both with the kind of their processor.
fn speed_up_to_noise((speed, kind): (u32, u32), own: (u32, u32), policy: &Policy) -> u32 {
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

/// The time that one unit of work takes where `work` hundredths share this many cores of that speed; 10,000 = a
/// standard core for one process. Cores beyond the number of processes do not help.
pub(crate) fn cost(cores: u32, speed: u32, work: u64) -> u64 {
    let cores = u64::from(cores.max(1));
    let speed = u64::from(speed.max(1));
    work.max(DEMAND_FULL * cores) * 100 * u64::from(STANDARD_SPEED) / (cores * speed)
}

/// Memory that a body of `rss_kib` takes at the target: it also grows during the move.
pub(crate) fn need_kib(rss_kib: u64) -> u64 {
    rss_kib + rss_kib / 8 + HOST_KIB
}

/// The cost of moving one of the processes of `me`, milliseconds of a standard core: the work of both ends, the bytes,
/// and a host if there is none for it yet.
pub(crate) fn price_ms(proc: &Proc, to: &NodeName, me: &NodeName, policy: &Policy) -> i64 {
    let bytes_us = proc.rss_kib * policy.move_us_per_mib / 1024;
    let first_us = match to == me || proc.known.contains(to) {
        true => 0,
        false => policy.first_us,
    };
    ((policy.move_us + first_us + bytes_us) / 1000).max(1) as i64
}

/// Memory left on `node` when all processes on their way to it have arrived, KiB.
pub(crate) fn left_kib(node: &Node, flying_kib: u64) -> u64 {
    node.entry
        .mem_free_kib
        .saturating_sub(node.taken_kib)
        .saturating_sub(flying_kib)
}

pub(crate) fn reserve_kib(node: &Node, policy: &Policy) -> u64 {
    policy.reserve_kib(node.entry.mem_total_kib)
}

/// Whether `need` fits without using the reserve.
pub(crate) fn has_room(view: &View, policy: &Policy, node: &Node, need: u64) -> bool {
    let flying = view.flights.iter().filter(|f| f.to == node.entry.node);
    let flying_kib = flying.map(|flight| flight.need_kib).sum();
    left_kib(node, flying_kib) >= need + reserve_kib(node, policy)
}

/// Whether this home may send any process there, of any user and size.
pub(crate) fn takes_in(view: &View, policy: &Policy, slot: &Slot) -> bool {
    let node = slot.node;
    let heard = node.age_ms <= policy.age_ms_max(view.nodes.len())
        && !node.open.is_none()
        && !node.entry.shut;
    (node.entry.node == view.me || heard) && slot.has_room(policy, need_kib(0))
}

/// Whether this home may send processes of `uid` there at all. A home always accepts its own processes.
pub(crate) fn reachable(view: &View, policy: &Policy, node: &Node, uid: u32) -> bool {
    let heard = || node.age_ms <= policy.age_ms_max(view.nodes.len()) && !node.entry.shut;
    trusted(view, node, uid) && (node.entry.node == view.me || heard())
}

pub(crate) fn trusted(view: &View, node: &Node, uid: u32) -> bool {
    node.entry.node == view.me || node.open.has(uid)
}

/// Whether the processor of `node` can run a program that started with the features `needs`, or else with all of
/// home's.
pub(crate) fn can_run(view: &View, node: &Node, needs: Option<&CpuSet>) -> bool {
    let home = view.own().map(|own| &own.entry.cpu);
    node.entry.node == view.me
        || needs
            .or(home)
            .is_none_or(|needed| node.entry.cpu.covers(needed))
}

impl View {
    /// The slowness of a process at `node`: work over power, hundredths of a standard process. A policy's move states
    /// it as [`crate::Need::load_there`].
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
    fn cost_is_the_slowness_of_one_process() {
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
    fn speeds_within_noise_count_as_equal() {
        let check = |speed, kind, want| {
            let got = speed_up_to_noise((speed, kind), (10_000, 5), &Policy::default());
            assert_eq!(got, want, "{speed} of kind {kind}");
        };
        // The same kind of processor, as both nodes report.
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
