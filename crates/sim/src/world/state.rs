//! The state of a world at one moment.

use super::members::Members;
use super::slots::Slots;
use super::things::{Chore, Daemon, Event, Fault, Outcome, Prices, Proc, Traffic};
use crate::machine::{Machine, TaskId};
use armento_balance::Policy;
use armento_gossip::{CpuSet, Dice, Packet};
use armento_model::NodeName;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    /// Checks all processes after each event: for small farms.
    pub(super) all: bool,
}

pub struct World {
    pub(super) names: Vec<NodeName>,
    /// Lengths of the names, stored apart: needed for every entry of every message.
    pub(super) name_bytes: Vec<u8>,
    /// Ranks of nodes in the order of their names.
    pub(super) ranks: Vec<u32>,
    pub(super) daemons: Vec<Daemon>,
    pub(super) machines: Vec<(Machine, u64)>,
    pub(super) procs: Vec<Proc>,
    /// By node: living processes with this home, and all that are there.
    pub(super) homes: Vec<BTreeSet<TaskId>>,
    /// Number of processes that are being started at each home.
    pub(super) starting: Vec<u64>,
    pub(super) here: Vec<BTreeSet<TaskId>>,
    pub(super) used_kib: Vec<u64>,
    pub(super) chores: Slots<Chore>,
    pub(super) letters: Slots<Packet>,
    /// Time at which each node's link is free again.
    pub(super) wires_us: Vec<u64>,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) faults: Vec<Fault>,
    pub(super) members: Members,
    pub(super) policy: Policy,
    pub(super) prices: Prices,
    pub(super) dice: Dice,
    pub(super) now: u64,
    pub(super) count: u64,
    pub(super) living: usize,
    pub(super) out: Outcome,
    pub(super) traffic: Traffic,
    pub(super) checks: Checks,
    pub(super) cpu: CpuSet,
    /// Homes know the round trips.
    pub(super) told: bool,
}

impl World {
    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    pub(super) fn after(&mut self, us: u64, event: Event) {
        self.at(self.now + us, event);
    }
}
