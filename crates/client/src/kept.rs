//! Checkpoints of whole trees that another node keeps in case their home is lost (`armento run --safe=remote`), and how programs
//! are recovered from them (`armento farm recover`).

use armento_model::{NodeName, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Each answer of the node that keeps a tree's checkpoint lets its home run the tree for so long, counted by the home from before
/// it asked (a lease: Gray and Cheriton, 1989). Five renewals fit into it.
pub const LEASE: Duration = Duration::from_secs(10);
/// Longest command line that is kept with a checkpoint, bytes.
pub const KEPT_COMMAND_MAX: usize = 256;

/// What the keeper of a tree asks of the node that keeps its checkpoint. Each that succeeds renews the lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum KeepStep {
    /// A checkpoint of so many bytes is about to be sent. `boot`: the boot identifier of the home's kernel; `dead_ms`: the home's
    /// setting of this name, from its daemon.
    Begin {
        size: u64,
        sha256: String,
        command: String,
        boot: String,
        #[serde(default)]
        dead_ms: u64,
    },
    /// A part of it, hexadecimal; each in turn.
    Part {
        offset: u64,
        data: String,
    },
    /// All parts are there: it takes the place of the one before.
    End,
    Renew,
    /// From the home's daemon: the keeper has ended, and has not said that its tree has.
    KeeperGone,
    /// The tree has ended: nothing of it is kept any more.
    Forget,
}

/// The answer to a step that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAnswer {
    /// A checkpoint of the tree is kept, or is arriving.
    pub known: bool,
    /// The tree was recovered there: its home must not run it any more.
    pub taken: bool,
}

/// A checkpoint that a node keeps for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptInfo {
    /// With which it is named: the home and the tree.
    pub id: String,
    pub home: NodeName,
    /// Where it is kept.
    pub node: NodeName,
    pub tree: TreeId,
    pub uid: u32,
    pub user: String,
    pub command: String,
    pub bytes: u64,
    pub age_ms: u64,
    /// The home answers, and its kernel is the one that ran the tree.
    pub home_alive: bool,
    /// Until the home has stopped the tree for certain, milliseconds; 0: it has.
    pub wait_ms: u64,
    /// The keeper at its home has ended, and the program may run there without a lease: who recovers it states that the home is off.
    #[serde(default)]
    pub unsure: bool,
    /// The programs were recovered from it.
    pub taken: bool,
    /// Why it cannot be recovered now; `None`: it can.
    pub refused: Option<String>,
}

/// A step of recovering the programs of a kept checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum RecoverStep {
    /// From now on the home may not run them any more. `home_is_off`: a person states it, where no lease says it.
    Take {
        #[serde(default)]
        home_is_off: bool,
    },
    /// The next part of the file.
    Read { offset: u64 },
    /// All of it is there: the node keeps it no longer.
    Done,
    /// It is not needed any more, and was not recovered.
    Forget,
}
