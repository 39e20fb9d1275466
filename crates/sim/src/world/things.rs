//! Objects and events of a world.

use super::clock::Clock;
use super::copying::{Copying, Progress};
use crate::machine::TaskId;
use armento_balance::Ledger;
use armento_gossip::Table;
use std::collections::BTreeSet;

/// One node.
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    pub cores: u32,
    /// Of one core, thousandths of a standard core.
    pub speed_milli: u64,
    pub mem_kib: u64,
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub home: usize,
    pub start_us: u64,
    /// Of a standard core.
    pub work_ns: u64,
    pub rss_kib: u64,
    /// Its place is chosen at its exec; otherwise it starts at home.
    pub placed: bool,
    /// It copies files of its home.
    pub copy: Option<Copying>,
}

/// The cost of moves in this world.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Work of a start at home, until its place is chosen, nanoseconds of a standard core.
    pub start_ns: u64,
    /// Work of each end of a move.
    pub end_ns: u64,
    /// … and of the first move of a process to a node, each: a host starts there.
    pub first_ns: u64,
    /// CPU use of a daemon, thousandths of a standard core.
    pub rest_milli: u64,
    /// Bytes a microsecond.
    pub bandwidth: u64,
    /// Time in which it runs on neither side, microseconds.
    pub pause_us: u64,
    /// Latency from one node to another, microseconds.
    pub hop_us: u64,
    /// A node sends one message after another; otherwise in parallel, as if each had a link of its own.
    pub one_wire: bool,
    /// Whether the work of moves is done ahead of programs; otherwise it is one task among them. It takes a few time
    /// slices at most, and a kernel prefers tasks that have slept.
    pub ahead: bool,
    /// Whether a node's own programs come before guests, as with the least weight of guests; then the work of moves does,
    /// too.
    pub guests_yield: bool,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            start_ns: 0,
            end_ns: 3_000_000,
            first_ns: 0,
            rest_milli: 0,
            bandwidth: 110,
            pause_us: 3_000,
            hop_us: 200,
            one_wire: false,
            ahead: false,
            guests_yield: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Proc {
    pub job: Job,
    pub rss_kib: u64,
    pub place: usize,
    /// Time of its arrival there.
    pub came_us: u64,
    /// Its key on the machine where it runs; `None` while it is stopped.
    pub running: Option<u64>,
    /// … of its present part, where it copies.
    pub left_ns: u64,
    pub copying: Progress,
    /// It was stopped for a move.
    pub stands: bool,
    pub born: bool,
    pub ended_us: Option<u64>,
    /// A fault ended it.
    pub lost: bool,
    pub flight: Option<usize>,
    /// Nodes that have a host for it.
    pub known: BTreeSet<usize>,
    /// Counts its flights: late events of a failed flight are ignored.
    pub trip: u32,
}

impl Proc {
    pub fn lives(&self) -> bool {
        self.born && self.ended_us.is_none()
    }
}

/// Work that belongs to no process: a start, an end of a flight.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chore {
    Start(TaskId),
    Leave(TaskId, u32),
    Arrive(TaskId, u32),
    /// Calls of a process that is away are made at its home.
    Serve,
}

pub(super) struct Daemon {
    pub table: Table,
    pub ledger: Ledger,
    pub rack: Rack,
    pub boot: u64,
    pub clock: Clock,
    pub up: bool,
    /// Its memory was short when it last sent its load.
    pub short: bool,
    /// A process was started here since the last report, and was not placed.
    pub born: bool,
    pub moves: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Start(TaskId),
    Report(usize),
    Decide(usize),
    Period(usize),
    /// The next end on a machine, if nothing changed since.
    End(usize, u64),
    /// It was transferred, and the other end begins its work.
    Crossed(TaskId, u32),
    Thaw(TaskId, u32),
    Waited(TaskId),
    Heard(usize, usize),
    Grow(TaskId, u64),
    Fault(usize),
    Over(usize),
    /// The others have detected the fault by now.
    Noticed(usize),
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From each job's start to its end, microseconds, in the order of the jobs.
    pub took_us: Vec<u64>,
    pub last_end_us: u64,
    pub moves: u64,
    /// Work for moves, nanoseconds of a standard core.
    pub moved_ns: u64,
    pub refused: u64,
    /// Flights that a fault ended; the process stayed.
    pub failed: u64,
    /// Processes that a crash ended.
    pub lost: u64,
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// A node ends, with all processes that have their home or place there, and starts again after `for_us`.
    Crash { node: usize, for_us: u64 },
    /// These nodes and the others do not reach each other.
    Cut { nodes: Vec<usize>, for_us: u64 },
    /// A node has this share of the speed that it reported.
    Slow {
        node: usize,
        percent: u64,
        for_us: u64,
    },
    /// A node's clock runs too fast by so many millionths, from then on.
    Skew { node: usize, ppm: i64 },
    /// A node's owner is back and computes, so many tasks.
    Owner {
        node: usize,
        tasks: u64,
        for_us: u64,
    },
}

impl Fault {
    pub(super) fn for_us(&self) -> Option<u64> {
        match self {
            Fault::Crash { for_us, .. }
            | Fault::Cut { for_us, .. }
            | Fault::Slow { for_us, .. }
            | Fault::Owner { for_us, .. } => Some(*for_us),
            Fault::Skew { .. } => None,
        }
    }
}

/// Load messages between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub letters: u64,
    pub entries: u64,
    /// Including the overhead of a datagram.
    pub bytes: u64,
    /// Of all nodes together.
    pub periods: u64,
}
