//! What jobs used, on which node and on which day: what a keeper counts, and what `armento history` asks for.

use armento_model::{NodeName, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Nodes of one job that are counted apart; what it does on more counts as home's.
pub const JOB_NODES_MAX: usize = 1024;
/// Rows of one answer: with commands of [`COMMAND_MAX`] bytes they fit one line of a session.
pub const HISTORY_ROWS_MAX: u32 = 1000;
/// Longer command lines are cut, bytes.
pub const COMMAND_MAX: usize = 200;

/// What the processes of a job did on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeUse {
    pub cpu_ms: u64,
    /// Moves to this node.
    pub moves: u64,
    /// For which these stopped the program, microseconds.
    pub pause_us: u64,
    /// Bytes of these moves.
    pub move_bytes: u64,
    /// System calls sent home from this node, and the bytes of calls and files between it and home.
    pub calls: u64,
    pub call_bytes: u64,
}

impl NodeUse {
    /// What is more in `self` than in `before`.
    pub fn since(&self, before: &NodeUse) -> NodeUse {
        NodeUse {
            cpu_ms: self.cpu_ms.saturating_sub(before.cpu_ms),
            moves: self.moves.saturating_sub(before.moves),
            pause_us: self.pause_us.saturating_sub(before.pause_us),
            move_bytes: self.move_bytes.saturating_sub(before.move_bytes),
            calls: self.calls.saturating_sub(before.calls),
            call_bytes: self.call_bytes.saturating_sub(before.call_bytes),
        }
    }

    pub fn is_nothing(&self) -> bool {
        *self == NodeUse::default()
    }
}

impl AddAssign for NodeUse {
    fn add_assign(&mut self, more: NodeUse) {
        self.cpu_ms = self.cpu_ms.saturating_add(more.cpu_ms);
        self.moves = self.moves.saturating_add(more.moves);
        self.pause_us = self.pause_us.saturating_add(more.pause_us);
        self.move_bytes = self.move_bytes.saturating_add(more.move_bytes);
        self.calls = self.calls.saturating_add(more.calls);
        self.call_bytes = self.call_bytes.saturating_add(more.call_bytes);
    }
}

/// All that a tree of processes has used since its keeper began, ended processes included: a report that is lost is made
/// good by the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobUse {
    /// At most [`JOB_NODES_MAX`].
    pub nodes: Vec<(NodeName, NodeUse)>,
    /// Processes that the keeper has seen.
    #[serde(default)]
    pub procs: u64,
    /// Of its first process, if that has ended and it is known: the exit status, or 128+N after signal N.
    #[serde(default)]
    pub status: Option<i32>,
}

/// What the rows of an answer are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryBy {
    User,
    #[default]
    Job,
    Node,
    Day,
    Command,
}

/// A question about the jobs of this home. Times are Unix milliseconds; the history knows days, so that a day counts that
/// lies in part between the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryQuery {
    pub by: HistoryBy,
    pub since_ms: Option<u64>,
    pub until_ms: Option<u64>,
    /// Another than one's own: for root.
    pub uid: Option<u32>,
    /// What was used on this node only.
    pub node: Option<NodeName>,
    /// Program names that contain this.
    pub command: Option<String>,
    /// At most so many rows, and never more than [`HISTORY_ROWS_MAX`].
    pub rows: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryRow {
    /// A user's number, a tree, a node, a day as 2026-11-29, the name of a program.
    pub key: String,
    /// With [`HistoryBy::Job`].
    pub job: Option<HistoryJob>,
    pub jobs: u64,
    /// CPU time on the jobs' home, and elsewhere, milliseconds.
    pub home_cpu_ms: u64,
    pub away_cpu_ms: u64,
    pub moves: u64,
    pub pause_us: u64,
    pub move_bytes: u64,
    pub calls: u64,
    pub call_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryJob {
    pub tree: TreeId,
    pub uid: u32,
    pub command: String,
    pub home: NodeName,
    pub start_ms: u64,
    /// `None`: it runs, or its end was not seen.
    pub end_ms: Option<u64>,
    /// As in [`JobUse`].
    pub status: Option<i32>,
    pub procs: u64,
}

/// The answer to [`crate::api::Ask::History`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryInfo {
    pub rows: Vec<HistoryRow>,
    /// There are more rows than were asked for or fit.
    pub more: bool,
    /// Days that are kept, and the size of the file now and at most, bytes.
    pub days: u32,
    pub bytes: u64,
    pub bytes_max: u64,
    /// Jobs of which nothing is kept: the disk or the history was full for too long.
    pub lost: u64,
    /// What is wrong with the file now, or was: a damaged one was put aside.
    pub trouble: String,
    /// Of a question to the whole farm: members that did not answer; their jobs are missing.
    pub silent: Vec<NodeName>,
}
