//! Maintenance of a node: its switches, how it is drained, and what is left on it.

use armento_model::{NodeName, Pid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest reason for a drain, bytes: it is part of refusals, which are one line.
pub const DRAIN_WHY_MAX: usize = 200;
/// Most processes in a list of a [`DrainInfo`]: an answer fits a line.
pub const DRAIN_LISTED_MAX: usize = 200;

/// The order of `armento node drain` and `undrain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainChange {
    pub drained: bool,
    /// For people; may be empty.
    #[serde(default)]
    pub why: String,
    /// The node's own processes come home and stay there; else those that run at home leave for other nodes.
    #[serde(default)]
    pub all_home: bool,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainInfo {
    pub node: NodeName,
    pub drained: bool,
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub all_home: bool,
    /// When it was ordered, Unix time in milliseconds; `None` if it is not drained, or by `armento farm drain`.
    #[serde(default)]
    pub since_ms: Option<u64>,
    /// Guests that are here …
    pub guests: u64,
    /// … and hosts that have not reported since the order whether they have any.
    pub unheard: u64,
    /// The node's own processes: those that run on it, and those elsewhere.
    pub own_here: u64,
    pub own_away: u64,
    /// Processes that still have to go: all guests, own ones that leave, or come home with `all_home`.
    pub leaving: u64,
    /// Own processes that stay on the node, for a reason that does not pass by itself.
    pub staying: u64,
    /// The first of both; empty for an asker who may not see them.
    #[serde(default)]
    pub processes: Vec<DrainedProcess>,
}

impl DrainInfo {
    /// Nothing is left that could go.
    pub fn is_empty(&self) -> bool {
        self.leaving + self.unheard == 0
    }
}

/// A process that is on a drained node, or belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainedProcess {
    pub pid: Pid,
    pub home: NodeName,
    pub place: NodeName,
    pub command: String,
    /// It stays; else it has to go.
    pub stays: bool,
    /// Why it is still there: a reason to stay (`armento why`), or `leaving`, or `home-silent` for a guest whose home does not
    /// answer.
    pub reason: String,
    #[serde(default)]
    pub detail: String,
}

/// The changes of `armento farm start`, `stop`, `block`, `stay`, `quiet`, `drain`, `expel`, `bring` and of
/// `armento mfs on` and `off`; a switch that is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SwitchChange {
    /// No guest comes, no process leaves, all processes return to their homes.
    pub stop: Option<bool>,
    /// Guests leave, and none comes.
    pub drain: Option<bool>,
    /// No guest comes.
    pub block: Option<bool>,
    /// This home's processes leave only when a user orders it.
    pub stay: Option<bool>,
    /// Send this node's load to no node, move no process.
    pub quiet: Option<bool>,
    /// `armento mfs on` and `off`: MFS is mounted here, and files of this node are served.
    pub mfs: Option<bool>,
    /// Guests leave, once.
    pub expel: bool,
    /// This home's processes come home, once.
    pub bring: bool,
    /// This daemon will end with its machine or its package. Applies until it ends, and is not stored.
    pub ending: Option<Ending>,
}

/// Processes that leave when a daemon will end for longer than a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The machine shuts down: guests leave. This home's processes end with it, wherever they are.
    Machine,
    /// The package is removed: guests leave, and this home's processes come home, where they go on.
    Package,
}

/// The switches that an administrator has set on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchInfo {
    pub node: NodeName,
    pub stopped: bool,
    pub drain: bool,
    /// The reason given to `armento node drain`.
    #[serde(default)]
    pub drain_why: String,
    pub block: bool,
    pub stay: bool,
    pub quiet: bool,
    #[serde(default)]
    pub mfs: bool,
    /// Guests are being sent away.
    pub expels: bool,
    /// `owner_first` is set …
    #[serde(default)]
    pub owner_first: bool,
    /// … and the owner was active recently.
    #[serde(default)]
    pub owner: bool,
    /// This home's processes that were ordered to come home and have not arrived yet.
    pub brings: u64,
    /// Which of `block`, `stay`, `quiet`, `mfs` were changed by command and override the configuration.
    pub changed: Vec<String>,
    /// Processes of this home that are elsewhere.
    pub away: u64,
    /// Guests that are here …
    pub guests: u64,
    /// … and hosts that have not reported since the last change whether they have any.
    pub unheard: u64,
}
