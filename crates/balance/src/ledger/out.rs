//! Data that is read from the ledger.

use super::{Freed, Ledger};
use crate::account::Account;
use crate::cost::need_kib;
use crate::load_history::EARLY_MS;
use crate::view::DEMAND_FULL;
use crate::windowed_min::Steady;
use crate::{Node, View};
use armento_gossip::{Known, Tick};
use armento_model::{FileRates, NodeName, Pid, Users};
use std::collections::{HashMap, HashSet};

/// A farm of up to this many nodes is examined as a whole.
const WINDOW_FULL: usize = 1000;
/// … of a larger one at least so many: the best of a few hundred is hardly worse than the best of all (RFD 44) …
const WINDOW_MIN: usize = 256;
/// … and so many for each process of this home.
const WINDOW_EACH: usize = 4;

/// Time after which a source has freed its memory, counted from home's notice that the process is elsewhere.
const FREES_MS: u64 = 500;

impl Ledger {
    /// All work here, hundredths: the value of [`armento_gossip::Entry::load`].
    pub fn load(&self) -> u32 {
        u32::try_from(self.others_here() + self.ours.at(&self.me)).unwrap_or(u32::MAX)
    }

    /// Work here that belongs neither to guests nor to this home's processes, hundredths, smoothed.
    pub fn background(&self) -> u64 {
        self.background
    }

    /// Number of this home's moves in progress.
    pub fn flying(&self) -> usize {
        self.flights.len()
    }

    /// Number of this home's living processes, as far as they were reported.
    pub fn procs(&self) -> usize {
        self.accounts.len()
    }

    /// What a process that is away does with home's files, a second.
    pub fn file_rates(&self, pid: Pid) -> FileRates {
        let account = self.accounts.get(&pid);
        account.map_or(FileRates::default(), |account| account.proc.rates)
    }

    /// How many of the load vector's freshest entries a decision examines: the whole farm up to a thousand nodes;
    /// beyond that, enough to find good places for all processes of this home.
    pub fn window(&self, nodes: usize) -> usize {
        if nodes <= WINDOW_FULL {
            return WINDOW_FULL;
        }
        (self.accounts.len() * WINDOW_EACH).max(WINDOW_MIN)
    }

    /// Nodes on which this home's processes are, or to which they move: a decision examines these, too.
    pub fn places(&self) -> impl Iterator<Item = &NodeName> {
        self.ours.places()
    }

    /// Everything that a decision may use. `known` is the load vector's view; `open` gives the users for whom this home
    /// may send programs to a node that accepts them (for this node: whether it accepts guests).
    pub fn view(
        &mut self,
        known: Vec<Known>,
        open: impl Fn(&NodeName) -> Users,
        now: Tick,
    ) -> View {
        self.expire(now);
        let oldest_ms = known.iter().map(|k| k.age_ms).max().unwrap_or(0);
        let newcomers = self.newcomers(oldest_ms + EARLY_MS, now);
        let mut slot = |known: Known| {
            let open = open(&known.entry.node);
            let came = newcomers.get(&known.entry.node);
            self.slot(known, open, came.map_or(&[], Vec::as_slice), now)
        };
        let nodes: Vec<Node> = known.into_iter().map(&mut slot).collect();
        let names: HashSet<&NodeName> = nodes.iter().map(|n| &n.entry.node).collect();
        self.others.retain(|name, _| names.contains(name));
        self.seen(nodes, now)
    }

    /// This node alone: all that [`crate::admit`] uses. `own` is its entry in the load vector.
    pub fn own_view(&mut self, own: Option<Known>, open: Users, now: Tick) -> View {
        self.expire(now);
        let own = own.map(|own| self.slot(own, open, &[], now));
        self.seen(own.into_iter().collect(), now)
    }

    fn seen(&self, nodes: Vec<Node>, now: Tick) -> View {
        View {
            me: self.me.clone(),
            nodes,
            procs: self
                .accounts
                .values()
                .map(|account| account.proc.clone())
                .collect(),
            flights: self.flights.values().cloned().collect(),
            placements: self.placements,
            decided_last: self.decided_last,
            ended_last: self.ended_last,
            turns_ms: self.turns_us / 1000,
            upkeep: self.upkeep.least(),
            busy_percent: self.busy_percent,
            typical_ms: self.typical_ms(now),
        }
    }

    /// For each node, this home's processes that arrived there within `within_ms`: how long ago, and the memory of
    /// each, KiB.
    fn newcomers(&self, within_ms: u64, now: Tick) -> HashMap<NodeName, Vec<(u64, u64)>> {
        let mut by_place: HashMap<NodeName, Vec<(u64, u64)>> = HashMap::new();
        for Account { proc, .. } in self.accounts.values() {
            let since_ms = now.since(proc.arrived);
            if since_ms <= within_ms && proc.place != self.me {
                let there = by_place.entry(proc.place.clone()).or_default();
                there.push((since_ms, need_kib(proc.rss_kib)));
            }
        }
        by_place
    }

    /// Memory that this home's processes have freed at `node` since its last report, KiB.
    fn freed_kib(&self, node: &NodeName, age_ms: u64, now: Tick) -> u64 {
        let since = |f: &&Freed| now.since(f.at) <= age_ms + FREES_MS;
        let newest_first = self.freed.iter().rev().take_while(since);
        newest_first
            .filter(|f| f.node == *node)
            .map(|f| f.kib)
            .sum()
    }

    fn slot(&mut self, known: Known, open: Users, newcomers: &[(u64, u64)], now: Tick) -> Node {
        let Known { mut entry, age_ms } = known;
        let freed_kib = self.freed_kib(&entry.node, age_ms, now);
        if entry.node == self.me {
            entry.load = self.load();
            let taken_kib = self.expected.iter().map(|e| e.need_kib).sum();
            let others = self.foreign(&entry.node, self.others_here(), now);
            let guests = self.guests_here().min(others.last());
            return Node {
                entry,
                age_ms: 0,
                open,
                others: others.last(),
                steady: others.least(),
                mean: others.mean(),
                guests,
                taken_kib,
                freed_kib,
                rtt_us: 0,
            };
        }
        let since_it_spoke = newcomers.iter().filter(|(ms, _)| *ms <= age_ms + EARLY_MS);
        let taken_kib = since_it_spoke.map(|(_, need_kib)| need_kib).sum();
        // Subtracting too much of this home's work makes a node look emptier than it is, which its admission corrects;
        // subtracting too little would count this home's work as another's and drive its processes away. If this home's
        // processes come and go, the difference says little about other homes: the previous value is kept, as far as
        // possible.
        let (least, most) = self.past.between(&entry.node, age_ms, now);
        let but = |ours: u64| u64::from(entry.load).saturating_sub(ours);
        let known = self.others.get(&entry.node).map(Steady::last);
        let others = known.unwrap_or(but(most)).clamp(but(most), but(least));
        let others = self.foreign(&entry.node, others, now);
        let rtt_us = self.rtts_us.get(&entry.node).copied().unwrap_or(0);
        Node {
            entry,
            age_ms,
            open,
            others: others.last(),
            steady: others.least(),
            mean: others.mean(),
            guests: 0,
            taken_kib,
            freed_kib,
            rtt_us,
        }
    }

    /// Sets the work of other homes at `node`.
    fn foreign(&mut self, node: &NodeName, work: u64, now: Tick) -> Steady {
        let fresh = || Steady::new(work, now);
        let known = self.others.entry(node.clone()).or_insert_with(fresh);
        known.set(work, now);
        *known
    }

    fn others_here(&self) -> u64 {
        self.background + self.guests_here()
    }

    /// Work of guests here and on their way here, hundredths.
    fn guests_here(&self) -> u64 {
        let guests: u64 = self.visitors.values().map(|visitor| visitor.demand).sum();
        guests + self.expected.len() as u64 * DEMAND_FULL
    }
}
