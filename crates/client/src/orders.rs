//! What a daemon orders of keepers and hosts, and what these report.

use crate::checkpoint::{CheckpointOrder, Checkpointed};
use crate::dfsa::MountVerdict;
use crate::history::JobUse;
use crate::processes::{Dest, GuestInfo, ProcInfo, SafeWish};
use armento_model::{NodeName, Pid, Stay};
use serde::{Deserialize, Serialize};

/// The meaning of a missing value from an older daemon.
fn not_trusted() -> Stay {
    Stay::NotTrusted
}

/// A node that leaves takes a minute at most (`noded/src/membership/leave.rs`).
fn expelled_ms() -> u64 {
    60_000
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Order {
    /// Move `pid`; report `Moved` or `Stayed` with the same ticket.
    Move {
        pid: Pid,
        to: Dest,
        ticket: u64,
        /// No user ordered it: it would even out the load.
        #[serde(default)]
        balances: bool,
        /// … and all that share its memory go with it.
        #[serde(default)]
        together: bool,
        /// A user ordered it: it stays where it is moved, until [`Dest::Balance`].
        #[serde(default)]
        by_hand: bool,
    },
    /// Write a checkpoint file; report `Checkpointed` or `NotCheckpointed` with the same ticket.
    Checkpoint { ticket: u64, order: CheckpointOrder },
    /// Bring every process of the tree home (the node leaves, or an administrator asks).
    Recall { ticket: u64 },
    /// To a host: send your guests away; keepers bring them home. No guest is accepted for a while.
    Expel {
        /// For the keepers' users; empty: the node leaves the farm.
        #[serde(default)]
        why: String,
        #[serde(default = "not_trusted")]
        stay: Stay,
        #[serde(default = "expelled_ms")]
        for_ms: u64,
    },
    /// To a keeper: send no process to these nodes; processes there may come home.
    Closed { nodes: Vec<NodeName> },
    /// To a keeper or host: that node is not a member any more. Links to it end, with the processes there; request a
    /// new identity, which does not connect to it.
    Cut { node: NodeName },
    /// To a keeper: become this program, the daemon's own, by its path, device and inode. Report `KeepsProgram` if that is not
    /// possible; else the next program says hello.
    BecomeProgram { path: String, dev: u64, ino: u64 },
    /// To a keeper: keep its tree safe from now on, or no more. Its process begins its program anew with that, which says
    /// hello; report `KeepsProgram` with the same ticket if that is not possible.
    Safe {
        ticket: u64,
        safe: Option<SafeWish>,
        /// The user has asked for it, not the settings of the node.
        #[serde(default)]
        by_user: bool,
    },
    /// Stands for a future version (`version.rs`): sent in tests, not understood by this one.
    #[serde(skip_deserializing)]
    ToCome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Report {
    /// From a keeper, once or twice a second and after every change: all living processes of the tree.
    Procs {
        procs: Vec<ProcInfo>,
        /// What has ended since the last such message, or [`Ask::Place`].
        #[serde(default)]
        ran: Vec<Ran>,
    },
    Moved {
        ticket: u64,
        pid: Pid,
        node: NodeName,
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    Stayed {
        ticket: u64,
        pid: Pid,
        stay: Stay,
        detail: String,
        /// If it stayed because it would have moved alone: all that share its memory, and itself.
        #[serde(default)]
        group: Vec<Pid>,
    },
    Checkpointed {
        ticket: u64,
        done: Checkpointed,
    },
    /// The fields of a refusal.
    NotCheckpointed {
        ticket: u64,
        code: String,
        message: String,
        hint: String,
    },
    /// From a keeper that was to become another program, or to begin its own anew: it goes on as it is.
    KeepsProgram {
        #[serde(default)]
        ticket: Option<u64>,
        why: String,
    },
    /// It came home without an order: its node sent it away, or a call could only be served at home.
    CameHome {
        pid: Pid,
        from: NodeName,
        stay: Stay,
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    /// The node of its body was lost, and it goes on at another.
    Recovered {
        pid: Pid,
        from: NodeName,
        node: NodeName,
        /// From the loss until it ran again.
        stopped_us: u64,
    },
    /// A fresh program has arrived at its start node, or starts here.
    Placed {
        pid: Pid,
    },
    /// The body of this process called execve(2) on this node, and not at home, or is at home for the first time since.
    Execed {
        pid: Pid,
        node: NodeName,
    },
    /// From a keeper, now and then and at its end: all that its tree has used so far.
    Used(JobUse),
    /// What is found out about shared mounts and a node with guests of ours.
    Mounts {
        node: NodeName,
        verdicts: Vec<MountVerdict>,
    },
    /// From a host.
    Guests {
        guests: Vec<GuestInfo>,
    },
    /// Stands for a future version (`version.rs`): sent in tests, not understood by this one.
    #[serde(skip_deserializing)]
    ToCome,
}

/// A program that a process of the tree does not run any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    pub pid: Pid,
    /// Its file; empty if unknown.
    pub program: String,
    /// CPU time that it used at home and away, if that is known.
    pub cpu_ms: Option<u64>,
    /// The process has ended; else it runs another program.
    pub ended: bool,
}
