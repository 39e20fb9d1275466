//! What a process does with files of its home and of other nodes.

use armento_model::NodeName;

/// Calls and bytes so far that crossed the network between a process and the node of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that waited for a round trip.
    pub waits: u64,
    /// Calls that were answered before the other node had made them.
    pub posts: u64,
    /// Bytes to the node of the files, and from there.
    pub sent: u64,
    pub received: u64,
}

/// The same for each second of CPU time of a standard core: independent of how fast the process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub waits: u64,
    pub posts: u64,
    /// Both ways.
    pub bytes: u64,
}

impl Traffic {
    pub fn is_none(self) -> bool {
        self == Traffic::default()
    }
}

/// What a process does with files, as far as it is known; nothing of a process that has never been away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// With files of its home, if it is away.
    pub home: Traffic,
    /// With files of other nodes, wherever it is.
    pub others: Vec<(NodeName, Traffic)>,
}

impl FileUse {
    pub fn is_none(&self) -> bool {
        self.home.is_none() && self.others.iter().all(|(_, t)| t.is_none())
    }
}
