//! What a daemon knows of the farm and of its own processes, all under the one lock of `Node`.

use super::members::Members;
use super::switches::Switches;
use crate::clock::Known;
use crate::hosts::HostTable;
use crate::keepers::{Consents, Keeper, KeeperTable, Rejoin, TraceRate};
use armento_balance::{Guest, Ledger};
use armento_client::api::{GuestInfo, ProcInfo};
use armento_gossip::{Dice, Tick, Vector};
use armento_model::{NodeName, Pid, Stay, TreeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Instant;

pub struct Core {
    pub me: NodeName,
    pub members: Members,
    pub vector: Vector,
    pub ledger: Ledger,
    pub dice: Dice,
    pub keepers: KeeperTable,
    /// Keepers that were there before this daemon and have not said hello yet.
    pub rejoin: Rejoin,
    pub hosts: HostTable,
    pub leaving: bool,
    /// Nodes that are about to be removed, until then: nothing goes there, and what is there comes home.
    pub draining: BTreeMap<NodeName, Instant>,
    /// Targets that did not want a user's programs, until when they are not tried again, and why.
    pub refused: BTreeMap<(NodeName, u32), (Instant, Stay)>,
    pub switches: Switches,
    /// Processes that were ordered home, and when.
    pub recalled: BTreeMap<Pid, Instant>,
    /// What was seen of the others' clocks.
    pub clocks: HashMap<NodeName, Known>,
    /// Which programs named which keepers to Yama, and how often that was asked for lately.
    pub consents: Consents,
    pub trace_rate: TraceRate,
    /// Shared mounts and other nodes: whether files are opened there directly, or why not.
    pub verdicts: BTreeMap<(PathBuf, NodeName), (bool, String)>,
    /// Nodes that keep a checkpoint of a tree of this home, and the tree's user.
    pub kept_away: BTreeMap<TreeId, (NodeName, u32)>,
    /// Number of the newest session or ticket.
    pub count: u64,
}

impl Core {
    /// A number for a session or an order.
    pub fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Processes whose home is here, of one user or of all.
    pub fn procs(&self, uid: Option<u32>) -> Vec<ProcInfo> {
        let all = self.keepers.procs();
        let with_rates = |p: &ProcInfo| ProcInfo {
            rates: self.ledger.file_rates(p.pid),
            ..p.clone()
        };
        all.filter(|p| uid.is_none_or(|uid| p.uid == uid))
            .map(with_rates)
            .collect()
    }

    /// A node left for good.
    pub fn member_left(&mut self, name: &NodeName) {
        self.members.left(name, &mut self.vector);
    }

    /// A process of this home is kept here, or a guest runs here.
    pub fn has_work(&self) -> bool {
        self.keepers.all().next().is_some() || self.hosts.guests().next().is_some()
    }

    /// Age of the youngest process of this home; 0 of one that is being started.
    pub fn youngest_ms(&self) -> Option<u64> {
        let age = |k: &Keeper| k.procs.iter().map(|p| p.age_ms).min().unwrap_or(0);
        self.keepers.all().map(age).min()
    }

    /// Processes of this home that are elsewhere.
    pub fn away(&self) -> BTreeSet<Pid> {
        let out = self.keepers.procs().filter(|p| p.place != self.me);
        out.map(|p| p.pid).collect()
    }

    /// Tells the ledger which guests live here.
    pub fn settle_guests(&mut self, now: Tick) {
        let guest = |g: &GuestInfo| Guest {
            home: g.home.clone(),
            pid: g.pid,
            threads: g.threads,
            busy_percent: g.busy_percent,
        };
        let guests: Vec<Guest> = self.hosts.guests().map(guest).collect();
        self.ledger.guests(&guests, now);
    }
}
