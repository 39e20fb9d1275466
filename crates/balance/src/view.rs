//! All that a decision may look at.

use armento_gossip::{CpuSet, Entry, Tick};
use armento_model::{Hint, NodeName, Pid, Stay, Users};

/// The work of one process that always wants a processor. Work is counted in hundredths.
pub const DEMAND_FULL: u64 = 100;

/// One home's knowledge at one moment.
#[derive(Clone, Debug)]
pub struct View {
    pub me: NodeName,
    /// Living nodes, this one among them.
    pub nodes: Vec<Node>,
    /// The living processes whose home this is, wherever they are now.
    pub procs: Vec<Proc>,
    /// Placements and moves of those that were ordered and have not ended.
    pub flights: Vec<Flight>,
    /// Fresh programs placed so far: the turn of `static`.
    pub placements: u64,
    /// When this home last decided a move.
    pub decided_last: Option<Tick>,
    /// When one of ours last ended: somewhere there is room now.
    pub ended_last: Option<Tick>,
    /// What may be spent on taking turns, milliseconds of a standard core.
    pub turns_ms: u64,
    /// What the farm itself takes of this node, hundredths of a process: its daemon, keepers of programs elsewhere.
    pub upkeep: u64,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub entry: Entry,
    pub age_ms: u64,
    /// Whose programs this home sends there and that node accepts: `send_to`, `accept_from`, not leaving.
    pub open: Users,
    /// Work there that is not ours: its own programs and other homes' guests, hundredths.
    pub others: u64,
    /// … of it, what stayed for some seconds: who passed by makes nobody take turns.
    pub steady: u64,
    /// Memory that ours took there since it last spoke, KiB.
    pub taken_kib: u64,
    /// … and freed there, KiB.
    pub freed_kib: u64,
}

/// One of ours.
#[derive(Clone, Debug)]
pub struct Proc {
    pub pid: Pid,
    pub uid: u32,
    /// Where it runs now.
    pub place: NodeName,
    /// How much of a processor it wants, smoothed, at most [`DEMAND_FULL`].
    pub demand: u64,
    /// CPU it has used since it began.
    pub cpu_ms: u64,
    pub rss_kib: u64,
    /// When it came to `place`, or was born.
    pub arrived: Tick,
    /// System calls sent home, a second, smoothed; remembered for a while after it came home.
    pub forwarded_per_s: u64,
    pub locked: bool,
    /// It refused a move for this reason, and is not asked again before that moment.
    pub hold: Option<(Stay, Tick)>,
    /// CPU features it needs when these are not all those of its home (`--portable`).
    pub needs: Option<CpuSet>,
    pub hint: Option<Hint>,
    /// How far it is behind the equal progress of all of this home's, milliseconds of a standard core.
    pub lag_ms: i64,
    /// Since it was born, wherever it was.
    pub age_ms: u64,
    /// Nodes where it has been: they have a host for it.
    pub known: Vec<NodeName>,
}

/// A placement or move under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    pub pid: Pid,
    pub to: NodeName,
    pub need_kib: u64,
    pub since: Tick,
}

/// What to order from a keeper. `to` may be home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub pid: Pid,
    pub from: NodeName,
    pub to: NodeName,
    pub grounds: Grounds,
}

/// Why it was chosen, with the figures that were weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grounds {
    pub cause: Cause,
    /// What it gets where it is, and will get at the target, thousandths of a standard core.
    pub now_milli: u64,
    pub then_milli: u64,
    /// What the move costs, milliseconds of a standard core.
    pub price_ms: u64,
    /// [`Proc::lag_ms`].
    pub lag_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Where it is memory runs out.
    Memory,
    /// It gets more of a processor there, or leaves more to others.
    Share,
    /// Places are changed, so that all progress alike.
    Turn,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Memory => "memory",
            Cause::Share => "share",
            Cause::Turn => "turn",
        }
    }
}

impl View {
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.entry.node == *name)
    }

    /// This node; absent only before its first sample.
    pub fn own(&self) -> Option<&Node> {
        self.node(&self.me)
    }

    /// What the farm itself takes at `node`, hundredths: known of this one only.
    pub(crate) fn kept_at(&self, node: &NodeName) -> u64 {
        match *node == self.me {
            true => self.upkeep,
            false => 0,
        }
    }

    pub fn flies(&self, pid: Pid) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.pid == pid)
    }

    /// Where `proc` is, or will be when its flight has ended.
    pub fn whereabouts<'a>(&'a self, proc: &'a Proc) -> &'a NodeName {
        self.flies(proc.pid)
            .map_or(&proc.place, |flight| &flight.to)
    }
}
