//! What a world is made of, and what happens in it.

use super::clock::Clock;
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
    /// Its place is chosen at its exec; else it starts at home.
    pub placed: bool,
}

/// What moving costs in this world.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Work of a start at home, until it is known where the program goes, nanoseconds of a standard core.
    pub start_ns: u64,
    /// Work of each end of a move.
    pub end_ns: u64,
    /// … and of the first of a process to a node, each: a host begins there.
    pub first_ns: u64,
    /// What a daemon takes of its node, thousandths of a standard core.
    pub rest_milli: u64,
    /// Bytes a microsecond.
    pub bandwidth: u64,
    /// Neither here nor there, microseconds.
    pub pause_us: u64,
    /// From one node to another, microseconds.
    pub hop_us: u64,
    /// What a node sends goes out one after another; else as if each had a wire of its own.
    pub one_wire: bool,
    /// The work of moves is done ahead of programs; else it is one task among them. It takes a few time slices at most,
    /// and a kernel lets who has slept run first.
    pub ahead: bool,
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
        }
    }
}

#[derive(Debug)]
pub(super) struct Proc {
    pub job: Job,
    pub rss_kib: u64,
    pub place: usize,
    /// Since when it is there.
    pub came_us: u64,
    /// Its key on the machine where it runs; `None` while it stands still.
    pub running: Option<u64>,
    pub left_ns: u64,
    pub born: bool,
    pub ended_us: Option<u64>,
    /// It did not end by itself.
    pub lost: bool,
    pub flight: Option<usize>,
    /// Nodes that have a host for it.
    pub known: BTreeSet<usize>,
    /// Counts its flights: what belongs to one that failed comes too late.
    pub trip: u32,
}

impl Proc {
    pub fn lives(&self) -> bool {
        self.born && self.ended_us.is_none()
    }
}

/// Work that is no process's own: a start, an end of a flight.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chore {
    Start(TaskId),
    Leave(TaskId, u32),
    Arrive(TaskId, u32),
}

pub(super) struct Daemon {
    pub table: Table,
    pub ledger: Ledger,
    pub rack: Rack,
    pub boot: u64,
    pub clock: Clock,
    pub up: bool,
    /// Its memory was short when it last spoke.
    pub short: bool,
    /// Something was born here since the last report, and was not placed.
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
    /// It has travelled, and the other end begins its work.
    Crossed(TaskId, u32),
    Thaw(TaskId, u32),
    Heard(usize, usize),
    Grow(TaskId, u64),
    Fault(usize),
    Over(usize),
    /// The others have noticed by now.
    Noticed(usize),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From each job's start to its end, microseconds, in the order of the jobs.
    pub took_us: Vec<u64>,
    pub last_end_us: u64,
    pub moves: u64,
    /// Work for moves, nanoseconds of a standard core.
    pub moved_ns: u64,
    pub refused: u64,
    /// Flights that a fault ended; who flew stayed.
    pub failed: u64,
    /// Processes that a crash ended.
    pub lost: u64,
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// A node ends, with all whose home or place it is, and starts again after so long.
    Crash { node: usize, for_us: u64 },
    /// These nodes and the others do not hear each other.
    Cut { nodes: Vec<usize>, for_us: u64 },
    /// A node has this share of the speed that it told.
    Slow {
        node: usize,
        percent: u64,
        for_us: u64,
    },
    /// A node's clock runs so much too fast, millionths, from then on.
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

/// What nodes sent each other of their loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub letters: u64,
    pub entries: u64,
    /// With what a datagram takes beside them.
    pub bytes: u64,
    /// Of all nodes together.
    pub periods: u64,
}
