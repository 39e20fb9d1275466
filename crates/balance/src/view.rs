//! All data that a decision may use.

use crate::file_use::FileUse;
use armento_gossip::{CpuSet, Entry, Tick};
use armento_model::{FileRates, Hint, NodeName, Pid, Stay, Users};

/// The work of one process that is always runnable. Work is counted in hundredths.
pub const DEMAND_FULL: u64 = 100;

/// The farm's own work at home counts as a share of home's power from here on …
const BUSY_PERCENT_MIN: u64 = 20;
/// … and leaves at least the rest of it.
const BUSY_PERCENT_MAX: u64 = 90;

/// A process counts at most as so many, hundredths.
const WEIGHT_MAX: u64 = 400;

/// The data of one home at one moment.
#[derive(Clone, Debug)]
pub struct View {
    pub me: NodeName,
    /// Living nodes, including this one.
    pub nodes: Vec<Node>,
    /// This home's living processes, wherever they are.
    pub procs: Vec<Proc>,
    /// Placements and moves of these processes that were ordered and have not ended.
    pub flights: Vec<Flight>,
    /// Number of fresh programs placed so far: the position of `static` in its round robin.
    pub placements: u64,
    /// Time of this home's last decision to move.
    pub decided_last: Option<Tick>,
    /// Time at which a process of this home last ended: a core may be free.
    pub ended_last: Option<Tick>,
    /// Budget for rotations, milliseconds of a standard core.
    pub turns_ms: u64,
    /// Overhead of the farm on this node, hundredths of a process: its daemon, and keepers of programs elsewhere.
    pub upkeep: u64,
    /// The same as a share of this node's power in the last seconds, percent: a compiler's few seconds elsewhere, with all
    /// its files, may cost its home a fifth of that.
    pub busy_percent: u64,
    /// CPU time that programs of this home used which have ended lately, on the average; `None` if few have.
    pub typical_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub entry: Entry,
    pub age_ms: u64,
    /// Users for whom this home sends programs there and that node accepts them: `send_to`, `accept_from`, not leaving.
    pub open: Users,
    /// Work there that is not this home's: its own programs and other homes' guests, hundredths.
    pub others: u64,
    /// … of it, what lasted some seconds: a short load causes no rotation.
    pub steady: u64,
    /// … and its mean of some seconds: where guests yield, they get what is left of that.
    pub mean: u64,
    /// … of it, guests, on this home's own node; unknown elsewhere.
    pub guests: u64,
    /// Memory that this home's processes took there since its last report, KiB.
    pub taken_kib: u64,
    /// … and freed there, KiB.
    pub freed_kib: u64,
    /// Round trip from this home, microseconds; 0 if it is unknown.
    pub rtt_us: u64,
}

/// A process of this home.
#[derive(Clone, Debug)]
pub struct Proc {
    pub pid: Pid,
    pub uid: u32,
    /// Where it runs now.
    pub place: NodeName,
    /// Its demand for a processor, smoothed, at most [`DEMAND_FULL`].
    pub demand: u64,
    /// CPU time since its start.
    pub cpu_ms: u64,
    pub rss_kib: u64,
    /// Time of its arrival at `place`, or of its start.
    pub arrived: Tick,
    /// What it does with files, smoothed; remembered for a while after it came home.
    pub files: FileUse,
    /// It came back to its files, and leaves them before this time only for much more of a processor.
    pub back_until: Option<Tick>,
    /// The same a second, while it is away.
    pub rates: FileRates,
    /// Share of its time in which it computes, thousandths; 1000 until it is known.
    pub computes_permille: u64,
    pub locked: bool,
    /// The first of the processes that share memory with it: they move together.
    pub group: Option<Pid>,
    /// It refused a move for this reason, and is not asked again before that time.
    pub hold: Option<(Stay, Tick)>,
    /// CPU features it needs if not all those of its home (`--portable`).
    pub needs: Option<CpuSet>,
    pub hint: Option<Hint>,
    /// Distance behind the equal progress of all processes of this home, milliseconds of a standard core.
    pub lag_ms: i64,
    /// Time since its start.
    pub age_ms: u64,
    /// Nodes on which it has been: they have a host for it.
    pub known: Vec<NodeName>,
}

/// A placement or move in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    pub pid: Pid,
    pub to: NodeName,
    pub need_kib: u64,
    pub since: Tick,
}

/// A move to order from a keeper. `to` may be home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub pid: Pid,
    pub from: NodeName,
    pub to: NodeName,
    pub grounds: Grounds,
}

/// The reason for a move, with the figures that were weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grounds {
    pub cause: Cause,
    /// Its present share and that at the target, thousandths of a standard core.
    pub now_milli: u64,
    pub then_milli: u64,
    /// The cost of the move, milliseconds of a standard core.
    pub price_ms: u64,
    /// [`Proc::lag_ms`].
    pub lag_ms: i64,
    /// The part of its time that it loses to files now, and at the target, thousandths.
    pub lost_now_permille: u64,
    pub lost_then_permille: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its node runs out of memory.
    Memory,
    /// It gets more of a processor there, or leaves more to others.
    Share,
    /// Rotation for equal progress.
    Turn,
    /// Its files are there.
    Files,
    /// Its home is being drained.
    Drain,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Memory => "memory",
            Cause::Share => "share",
            Cause::Turn => "turn",
            Cause::Files => "files",
            Cause::Drain => "drain",
        }
    }
}

impl View {
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.entry.node == *name)
    }

    /// This node; missing only before its first sample.
    pub fn own(&self) -> Option<&Node> {
        self.node(&self.me)
    }

    /// Overhead of the farm at `node`, hundredths: known for this node only, and if it is not counted as a share of its
    /// power.
    pub(crate) fn overhead_at(&self, node: &NodeName) -> u64 {
        match *node == self.me && self.busy_percent_at(node) == 0 {
            true => self.upkeep,
            false => 0,
        }
    }

    /// Share of the power of `node` that the farm itself uses, percent; small shares count as work ([`View::upkeep`]).
    pub(crate) fn busy_percent_at(&self, node: &NodeName) -> u64 {
        match *node == self.me && self.busy_percent >= BUSY_PERCENT_MIN {
            true => self.busy_percent.min(BUSY_PERCENT_MAX),
            false => 0,
        }
    }

    /// How much of a node `proc` takes in the eyes of others, hundredths. Where many short programs come and go, one that
    /// has used several times as much as they do will probably be the last to end: it gets more room.
    pub(crate) fn weight(&self, proc: &Proc) -> u64 {
        let times = self.typical_ms.map_or(100, |typical_ms| {
            proc.cpu_ms.saturating_mul(100) / typical_ms.max(1)
        });
        proc.demand * times.clamp(100, WEIGHT_MAX) / 100
    }

    /// Whether a process takes more of its node than its demand.
    pub(crate) fn weighs(&self) -> bool {
        self.typical_ms.is_some() && self.procs.iter().any(|p| self.weight(p) > p.demand)
    }

    pub fn flies(&self, pid: Pid) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.pid == pid)
    }

    /// Where `proc` is, or will be after its move.
    pub fn whereabouts<'a>(&'a self, proc: &'a Proc) -> &'a NodeName {
        self.flies(proc.pid)
            .map_or(&proc.place, |flight| &flight.to)
    }
}
