//! Processes as keepers, hosts and the commands see them, and where they may go.

use crate::connections::Connections;
use armento_model::{
    FileCounts, FileRates, HomePid, MessageCounts, NodeName, Pid, Stay, TreeId, size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where to move a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dest {
    Node(NodeName),
    Home,
    /// Home, and there it stays, untraced, until a user moves it or orders `Balance`.
    Hold,
    /// Releases it if it is held; unlocks it otherwise. Then the policy chooses.
    Balance,
}

/// One process, from its keeper.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProcInfo {
    pub pid: Pid,
    pub ppid: Pid,
    pub tree: TreeId,
    pub uid: u32,
    pub home: NodeName,
    /// The node where it runs now.
    pub place: NodeName,
    pub command: String,
    /// CPU time used so far, home and away together, milliseconds.
    pub cpu_ms: u64,
    /// … of which away from home.
    pub away_cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    /// Share of recent time in which it was runnable, percent.
    pub busy_percent: u8,
    pub moves: u64,
    /// System calls sent home so far.
    pub forwarded: u64,
    /// Bytes of these calls from where it runs to home, and back.
    #[serde(default)]
    pub bytes_sent: u64,
    #[serde(default)]
    pub bytes_received: u64,
    /// Calls on files that were answered where it runs, up to a second ago.
    #[serde(default)]
    pub files: FileCounts,
    /// What it does with home's files a second while it is away; from its daemon.
    #[serde(default)]
    pub rates: FileRates,
    /// What it wrote and read at home while it had connections over TCP: away, such calls wait for home. `None`: it had
    /// none, or made few calls.
    #[serde(default)]
    pub messages: Option<MessageCounts>,
    /// Why the last move did not happen, or why it may not move.
    pub stay: Option<Stay>,
    /// … its cause: a file, a call, the other node's text. Empty if unknown.
    #[serde(default)]
    pub detail: String,
    /// … and the process that causes it, if there is one: the tracer, or a process that shares its memory.
    #[serde(default)]
    pub partner: Option<Pid>,
    pub locked: bool,
    /// Time without messages from where it runs, milliseconds, if longer than normal.
    #[serde(default)]
    pub lost_ms: Option<u64>,
    /// … and so long that it was frozen there.
    #[serde(default)]
    pub frozen: bool,
    /// It was restricted to the features that the keeper's hello gives as common.
    #[serde(default)]
    pub portable: bool,
    /// Age of the process, milliseconds.
    pub age_ms: u64,
    /// The node on which its body called execve(2) last; `None`: home, or unknown.
    #[serde(default)]
    pub last_exec: Option<NodeName>,
    /// What is kept of it in case its node is lost; `None`: nothing is (`armento run --safe`).
    #[serde(default)]
    pub safe: Option<SafeInfo>,
    /// Its busy connections while it is away; `None`: none was looked at.
    #[serde(default)]
    pub connections: Option<Connections>,
    /// Job control has stopped it, as SIGSTOP does.
    #[serde(default)]
    pub stopped: bool,
    /// Niceness of its first thread.
    #[serde(default)]
    pub nice: i32,
    /// The move that is under way, if home sends or receives its memory.
    #[serde(default)]
    pub moving: Option<Moving>,
}

/// A move of a process that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moving {
    pub to: NodeName,
    /// Bytes that home has sent or received for it so far.
    pub bytes: u64,
    /// For how long, milliseconds.
    pub for_ms: u64,
}

/// How a tree is kept safe: what `armento run --safe` and `armento safe` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SafeWish {
    /// So often a checkpoint of each process that is away is made, seconds.
    pub every_s: u64,
    /// Nothing leaves a process before a checkpoint covers it.
    #[serde(default)]
    pub exact: bool,
    /// So often another node gets a checkpoint of the tree, seconds.
    #[serde(default)]
    pub remote_s: Option<u64>,
}

/// What a home keeps of a process so that it can go on when its node is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SafeInfo {
    /// Age of its checkpoint, milliseconds; `None`: it has none.
    pub age_ms: Option<u64>,
    /// Memory of its home that the checkpoint takes, KiB.
    pub kept_kib: u64,
    /// How long the program stood still for the last checkpoint, microseconds.
    pub pause_us: u64,
    /// Calls that its home made for it since, and the bytes of their results.
    pub calls: u64,
    pub bytes: u64,
    /// It makes the calls again that a lost body had made.
    pub replays: bool,
    /// Why it could not go on if its node were lost now; `None`: it could, or it runs at home.
    pub unsafe_now: Option<String>,
    /// The node that keeps a checkpoint of the whole tree in case its home is lost, and the age of that, milliseconds.
    #[serde(default)]
    pub kept_at: Option<NodeName>,
    #[serde(default)]
    pub kept_age_ms: u64,
}

impl SafeInfo {
    /// In a sentence.
    pub fn words(&self) -> String {
        match &self.kept_at {
            Some(node) => {
                let age_s = self.kept_age_ms / 1000;
                format!("{}; kept at {node}, {age_s} s old", self.at_home())
            }
            None => self.at_home(),
        }
    }

    fn at_home(&self) -> String {
        let kept = match self.age_ms {
            Some(ms) => format!(
                "its checkpoint is {:.1} s old and takes {} of its home; the record since then has {} calls, {} of results; \
                 it stood still for {:.1} ms",
                ms as f64 / 1000.0,
                size(self.kept_kib),
                self.calls,
                size(self.bytes.div_ceil(1024)),
                self.pause_us as f64 / 1000.0
            ),
            None => "it has no checkpoint".into(),
        };
        match &self.unsafe_now {
            _ if self.replays => {
                "its node was lost: it makes its calls since the checkpoint again".into()
            }
            Some(why) => format!("it could not go on if its node were lost now: {why}; {kept}"),
            None if self.age_ms.is_none() => "it runs at home".into(),
            None => format!("it goes on if its node is lost: {kept}"),
        }
    }
}

/// One guest, from its host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestInfo {
    pub pid: HomePid,
    pub tree: TreeId,
    pub home: NodeName,
    pub command: String,
    pub cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    /// As in [`ProcInfo`].
    pub busy_percent: u8,
    /// Its home did not answer for too long: it is frozen.
    #[serde(default)]
    pub frozen: bool,
}
