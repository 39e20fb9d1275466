//! The control API: one schema for all commands and screens.
//!
//! ```text
//! client → daemon   {"v":1,"id":7,"ask":{"type":"nodes"}}
//! daemon → client   {"v":1,"id":7,"ok":{"type":"nodes","nodes":[…]}}
//!                   {"v":1,"id":7,"err":{"code":"no-such-node","message":"…","hint":"…"}}
//! daemon → keeper   {"v":1,"order":{"type":"move","pid":812,"to":{"node":"n3"},"ticket":5}}
//! ```
//! A line is at most [`LINE_MAX`] bytes; a longer one ends the session.

pub use crate::checkpoint::{CHECKPOINT_PIDS_MAX, CheckpointOrder, Checkpointed};
pub use crate::connections::{CONNECTIONS_LISTED_MAX, Connection, Connections};
pub use crate::dfsa::{
    DfsaInfo, DfsaMount, DfsaNode, MountVerdict, SharedMount, SharedStart, SharedUser,
};
pub use crate::history::{
    COMMAND_MAX, HISTORY_ROWS_MAX, HistoryBy, HistoryInfo, HistoryJob, HistoryQuery, HistoryRow,
    JOB_NODES_MAX, JobUse, NodeUse,
};
pub use crate::host::{HostSaid, HostStart, HostUp};
pub use crate::kept::{KEPT_COMMAND_MAX, KeepAnswer, KeepStep, KeptInfo, LEASE, RecoverStep};
pub use crate::maintenance::{
    DRAIN_LISTED_MAX, DRAIN_WHY_MAX, DrainChange, DrainInfo, DrainedProcess, Ending, SwitchChange,
    SwitchInfo,
};
pub use crate::mfs::{
    FilesExport, FilesStart, MfsInfo, MfsPlaces, MfsRoute, MfsServer, MfsStart, MfsStream, MfsUp,
    socket_of_mount,
};
pub use crate::orders::{Order, Ran, Report};
pub use crate::pass::{Pass, default_dead_ms, default_freeze_ms};
pub use crate::processes::{Dest, GuestInfo, Moving, ProcInfo, SafeInfo, SafeWish};
pub use crate::upgrade::{
    Build, PART_MAX, PROGRAM_MAX, ProgramVersions, RunningBuild, StayingKeeper, UpgradeStep,
    VERSION_MAX, VersionsInfo,
};
pub use crate::web::{
    Action, ProcRow, ROW_COMMAND_MAX, ROWS_MAX, WEB_PORT, WebKeys, WebSession, WebStart, WebTicket,
    WebUp,
};
pub use armento_gossip::{CpuSet, STANDARD_SPEED};
use armento_model::{Hint, NodeName, Pid, Stay, Tid, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest line either side accepts, bytes.
pub const LINE_MAX: usize = 1 << 20;

/// Interval at which keepers and hosts request a new identity. It lives a day, costs a millisecond, and a machine that
/// slept for longer soon has a valid one again.
pub const RENEW: Duration = Duration::from_secs(15 * 60);

/// Where the daemon listens; `ARMENTO_SOCKET` overrides it.
pub const SOCKET: &str = "/run/armento/control.sock";

/// Path of the control socket on this node.
pub fn socket_path() -> std::path::PathBuf {
    std::env::var_os("ARMENTO_SOCKET").map_or_else(|| SOCKET.into(), Into::into)
}

/// A file that the daemon leaves beside its socket while no program can leave this node, for programs being started.
pub fn node_note(socket: &std::path::Path) -> std::path::PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".note");
    path.into()
}

/// The meaning of a missing value from an older daemon.
fn yes() -> bool {
    true
}

/// Everything that is sent on a control session, in either direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The version that its sender speaks (`version.rs`).
    pub v: u32,
    /// Chosen by the requester, repeated in the answer; 0 for orders and reports.
    #[serde(default)]
    pub id: u64,
    #[serde(flatten)]
    pub body: Body,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    Ask(Ask),
    Ok(Answer),
    Err(Refusal),
    /// Daemon to keeper or host, unsolicited.
    Order(Order),
    /// Keeper or host to daemon, without an answer.
    Report(Report),
}

/// Why the daemon refused. Nothing was changed unless `message` says so.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Stable word for scripts, e.g. `no-such-node`, `not-joined`, or a [`Stay::code`].
    pub code: String,
    pub message: String,
    pub hint: String,
}

impl Refusal {
    /// The details of a reason to stay: the program that prints it adds the sentence of the reason itself. Empty if the
    /// message contains no more.
    pub fn detail(&self) -> &str {
        let Some(stay) = Stay::from_code(&self.code) else {
            return &self.message;
        };
        match self.message.split_once(stay.explain()) {
            None => &self.message,
            Some((_, rest)) => {
                let inner = rest.trim().strip_prefix('(');
                inner.and_then(|i| i.strip_suffix(')')).unwrap_or("")
            }
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Ask {
    // --- from commands and screens ---
    Nodes,
    Ps {
        /// Every process of the farm, not only those whose home is here.
        all: bool,
    },
    Why {
        pid: Pid,
    },
    /// Decisions of this daemon, newer than `after`, the newest `count`.
    Log {
        #[serde(default)]
        after: u64,
        count: u32,
        /// Decisions since then only, Unix time in milliseconds …
        #[serde(default)]
        since_ms: u64,
        /// … and about this process only.
        #[serde(default)]
        pid: Option<Pid>,
    },
    /// What jobs of this home used; `farm`: of every home.
    History {
        query: HistoryQuery,
        #[serde(default)]
        farm: bool,
    },
    /// Answered when the move has ended (`Answer::Moved`) or was refused.
    Migrate {
        pid: Pid,
        to: Dest,
    },
    /// Write a process, and all that it has started, into a checkpoint file, by its keeper and as its user. Answered when it is
    /// written (`Answer::Checkpointed`).
    Checkpoint(CheckpointOrder),
    /// Keep the tree of this process safe from now on, or no more. Answered when that is so.
    Safe {
        pid: Pid,
        safe: Option<SafeWish>,
    },
    /// Checkpoints of lost or living homes that this node keeps; `all`: that any node of the farm keeps.
    Kept {
        all: bool,
    },
    /// A step of recovering the programs of a checkpoint that this node keeps.
    #[schemars(skip)]
    Recover {
        id: String,
        recover: RecoverStep,
    },
    Leave,
    /// The daemon's identity, version and farm.
    Status,
    /// The trust settings of this node; with `change`, changes them.
    Trust {
        #[serde(default)]
        change: Option<TrustChange>,
    },
    /// The switches that an administrator has set here; with `change`, changes them.
    Switch {
        #[serde(default)]
        change: Option<SwitchChange>,
    },
    /// How far a node is with being drained; with `change`, changes that. Another node is changed by a holder of the farm's
    /// key only.
    Drain {
        /// `None`: this node.
        #[serde(default)]
        node: Option<NodeName>,
        #[serde(default)]
        change: Option<DrainChange>,
    },
    /// What runs on a node, by version.
    Versions {
        /// `None`: this node.
        #[serde(default)]
        node: Option<NodeName>,
    },
    /// The daemon becomes the program that is at its path by now.
    #[schemars(skip)]
    Restart,
    /// Replace the program of another node, by a holder of the farm's key.
    #[schemars(skip)]
    Upgrade {
        node: NodeName,
        step: UpgradeStep,
    },
    /// Read the configuration again, as SIGHUP does. Settings for running work take effect at once.
    Reload,
    /// The processor features that all living nodes have in common.
    #[schemars(skip)]
    Common,
    /// Remove a node from the farm for good, whether it agrees or not.
    Remove {
        node: NodeName,
        /// Do not wait for its guests and its own processes to return to their homes.
        #[serde(default)]
        now: bool,
    },
    /// Give the farm a new secret, and make all tokens invalid.
    Rotate,

    // --- from a keeper; the session then carries its reports and orders ---
    /// First line of a keeper's session. The daemon checks the peer's uid.
    #[schemars(skip)]
    Keep(KeeperHello),
    /// From the process for which `keeper` sends its hello, before it becomes the user's program: this keeper may trace
    /// it and what it will start. Sent where Yama restricts tracing.
    #[schemars(skip)]
    AllowKeeper {
        keeper: Pid,
    },
    /// The kernel refuses to let this keeper trace `pid` of its tree: make the process name the keeper to Yama.
    #[schemars(skip)]
    LetTrace {
        pid: Pid,
    },
    /// At an exec stop: where to run this fresh image. Answered within 5 ms or not at all (the keeper then runs it at
    /// home).
    #[schemars(skip)]
    Place {
        tree: TreeId,
        pid: Pid,
        /// Command line, for hints and display.
        command: String,
        /// As in [`ProcInfo`].
        #[serde(default)]
        portable: bool,
        /// The file of the program.
        #[serde(default)]
        program: String,
        /// The process that has started it; 0 if unknown.
        #[serde(default)]
        parent: Pid,
        /// Programs of the tree that wait for the keeper to ask for them.
        #[serde(default)]
        waiting: u32,
        /// What has ended since the last such message, or [`Report::Procs`].
        #[serde(default)]
        ran: Vec<Ran>,
    },
    /// The keeper decided to move to `node`: get it admitted there and return a way in. The daemon asks the target's
    /// daemon, which reserves room and starts a host.
    #[schemars(skip)]
    Route {
        tree: TreeId,
        pid: Pid,
        node: NodeName,
        /// Memory the process uses now, KiB.
        need_kib: u64,
        /// The keeper's engine version: it may be older than its daemon.
        #[serde(default)]
        engine: u32,
        /// As in [`ProcInfo`].
        #[serde(default)]
        portable: bool,
    },

    /// The current address of a node. From a keeper with a host that does not answer: its address may have changed.
    #[schemars(skip)]
    Address {
        node: NodeName,
    },

    /// From a keeper: a step with the checkpoint of its tree that another node keeps. `at`: that node; `None`: one is chosen.
    #[schemars(skip)]
    KeepAway {
        #[serde(default)]
        at: Option<NodeName>,
        step: KeepStep,
    },

    // --- from a host; the session then carries its reports ---
    #[schemars(skip)]
    Host(HostHello),

    /// From a keeper or host that said hello on this session: a new identity, for the old one expires.
    #[schemars(skip)]
    Identity,
    // --- MFS (`mfs.rs`) ---
    /// Whether it is mounted here, and what its streams did.
    Mfs,
    /// `selected` below the mount point means `node` for this process and those that it starts.
    MfsSelect {
        pid: Pid,
        node: NodeName,
    },
    /// From the mount process: a way to the file server of `uid` on `node`.
    #[schemars(skip)]
    MfsRoute {
        node: NodeName,
        uid: u32,
    },
    /// … what the symbolic names mean for this thread or process.
    #[schemars(skip)]
    MfsPlaces {
        pid: Pid,
    },
    /// … it made a file through `magic`, and there.
    #[schemars(skip)]
    MfsMade {
        pid: Pid,
        node: NodeName,
    },
    /// From a file server: a new identity, for the old one expires.
    #[schemars(skip)]
    MfsIdentity,
    /// From a keeper: the lease holder of its user, which is started if there is none.
    #[schemars(skip)]
    LeaseHolder,
    // --- DFSA (`dfsa.rs`) ---
    /// The shared mounts of this node.
    Dfsa,

    // --- the dashboard (`web.rs`) ---
    /// A token with which the asking user signs in at this node's dashboard, whose server is started if it does not run.
    #[schemars(skip)]
    WebToken {
        /// How often it can be used.
        uses: u32,
        /// How long a browser stays signed in, seconds.
        session_s: u64,
        #[serde(default)]
        dry_run: bool,
    },
    /// The asking user's tokens become invalid, and its browsers are signed out.
    #[schemars(skip)]
    WebEnd {
        #[serde(default)]
        dry_run: bool,
    },
    /// A token with which another machine controls this node as the asking user (`armento context`), once.
    #[schemars(skip)]
    Invite {
        /// How long that machine stays signed in, seconds.
        session_s: u64,
    },
    /// Uses `token` once; whoever has it is signed in.
    #[schemars(skip)]
    WebSignIn {
        token: String,
    },
    /// The browser with this secret is signed out.
    #[schemars(skip)]
    WebSignOut {
        secret: String,
    },
    /// From now on this session asks as the user of the browser with this secret, and only what [`Ask::is_for_pages`]
    /// allows.
    #[schemars(skip)]
    Act {
        secret: String,
    },
    /// All processes of the farm that the user sees, as rows; the least busy are left out if there are too many.
    #[schemars(skip)]
    Rows,
    /// Something that a user does with a process, whichever node is its home.
    #[schemars(skip)]
    Do {
        home: NodeName,
        action: Action,
    },

    /// Stands for a future version (`version.rs`): sent in tests, not understood by this one.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    ToCome,
}

impl Ask {
    /// Whether a session that acts for a browser may ask it: what shows the farm, and [`Ask::Do`]. Nothing that changes a
    /// node's settings, and nothing of keepers, hosts and mounts.
    pub fn is_for_pages(&self) -> bool {
        matches!(
            self,
            Ask::Nodes
                | Ask::Ps { .. }
                | Ask::Why { .. }
                | Ask::Migrate { .. }
                | Ask::Log { .. }
                | Ask::Status
                | Ask::WebSignOut { .. }
                | Ask::Act { .. }
                | Ask::Rows
                | Ask::Do { .. }
        )
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperHello {
    pub tree: TreeId,
    /// The keeper's own process.
    pub keeper: Pid,
    /// The process for which it was started.
    pub root: Pid,
    /// That process and its ancestors, if the tree is new: none of them may be held already. Empty from a keeper that
    /// reconnects to its daemon.
    #[serde(default)]
    pub above: Vec<Pid>,
    pub uid: u32,
    pub command: String,
    /// `--on NODE`: nothing else moves it.
    pub pinned: Option<NodeName>,
    /// `--stay`.
    pub stay: bool,
    /// `--storm MS`: the keeper itself moves the tree around; the balancer does not.
    pub storm: bool,
    /// `--portable`: the processor features that its programs may use, if they were restricted.
    #[serde(default)]
    pub common: Option<CpuSet>,
    /// `--begin here`: a launcher has chosen this node.
    #[serde(default)]
    pub begins_here: bool,
    /// `--cpu`, `--io`.
    #[serde(default)]
    pub hint: Option<Hint>,
    /// `--safe`.
    #[serde(default)]
    pub safe: Option<SafeWish>,
    /// Its user has chosen that, or `--off`: the node's settings do not change it.
    #[serde(default)]
    pub safe_chosen: bool,
    #[serde(default)]
    pub build: Build,
}

impl KeeperHello {
    /// Whether it served its tree before, so that an earlier daemon may have given it orders.
    pub fn was_there(&self) -> bool {
        self.above.is_empty()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostHello {
    pub tree: TreeId,
    pub home: NodeName,
    pub host: Pid,
    pub uid: u32,
    #[serde(default)]
    pub build: Build,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Answer {
    Done,
    /// To [`Ask::LetTrace`]: this thread was stopped for it in a sleep, which is this call.
    #[schemars(skip)]
    Named {
        slept: Option<(Tid, i64)>,
    },
    Nodes {
        nodes: Vec<NodeInfo>,
    },
    Ps {
        procs: Vec<ProcInfo>,
    },
    Why {
        pid: Pid,
        place: Option<NodeName>,
        stay: Option<Stay>,
        explanation: String,
        remedy: String,
        /// As in [`ProcInfo`].
        #[serde(default)]
        detail: String,
        #[serde(default)]
        partner: Option<Pid>,
        /// What being away costs it, where that is known.
        #[serde(default)]
        away: Option<AwayPrice>,
        /// What is kept of it in case its node is lost.
        #[serde(default)]
        safe: Option<SafeInfo>,
        /// As in [`ProcInfo`].
        #[serde(default)]
        connections: Option<Box<Connections>>,
    },
    Moved {
        pid: Pid,
        node: NodeName,
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    Checkpointed(Checkpointed),
    Kept {
        kept: Vec<KeptInfo>,
        /// Members that did not answer; what they keep is missing.
        silent: Vec<NodeName>,
    },
    /// To [`Ask::Recover`]: a part of the file, hexadecimal.
    #[schemars(skip)]
    KeptPart {
        size: u64,
        data: String,
    },
    /// To [`Ask::KeepAway`].
    #[schemars(skip)]
    KeptAway {
        at: NodeName,
        #[serde(flatten)]
        answer: KeepAnswer,
    },
    Status {
        node: NodeName,
        farm: String,
        version: String,
        joined: bool,
        /// Whether connections between programs of this home may go from node to node: its setting `direct_sockets`.
        #[serde(default = "yes")]
        direct_sockets: bool,
    },
    #[schemars(skip)]
    Placed {
        node: Option<NodeName>,
    },
    #[schemars(skip)]
    Common {
        cpu: CpuSet,
        /// The value of the tunable for glibc.
        hwcaps: String,
    },
    Trust(TrustInfo),
    Switches(SwitchInfo),
    Drain(DrainInfo),
    Versions(VersionsInfo),
    Log {
        entries: Vec<LogEntry>,
    },
    History(HistoryInfo),
    Removed {
        node: NodeName,
        /// Processes that were lost with it: this farm's processes there, and its own elsewhere.
        lost: u64,
        /// Members that receive it later, from the others.
        untold: Vec<NodeName>,
    },
    Rotated {
        /// Members that receive it later, from the others.
        untold: Vec<NodeName>,
    },
    #[schemars(skip)]
    Route(Pass),
    #[schemars(skip)]
    Address {
        ip: Option<std::net::IpAddr>,
        /// Of its daemon.
        #[serde(default)]
        port: Option<u16>,
    },
    #[schemars(skip)]
    Identity {
        identity: armento_link::Identity,
    },
    Mfs(MfsInfo),
    #[schemars(skip)]
    MfsRoute(MfsRoute),
    #[schemars(skip)]
    MfsPlaces(MfsPlaces),
    #[schemars(skip)]
    LeaseHolder {
        socket: std::path::PathBuf,
    },
    Dfsa(DfsaInfo),
    #[schemars(skip)]
    WebTicket(WebTicket),
    #[schemars(skip)]
    Invitation {
        /// As `armento context add` takes it.
        token: String,
        /// Where this node's daemon is reached.
        addr: std::net::SocketAddr,
        /// How long the token can be used, seconds.
        valid_s: u64,
    },
    #[schemars(skip)]
    WebSession(WebSession),
    /// Tokens and browser sessions that ended.
    #[schemars(skip)]
    WebEnded {
        count: u64,
    },
    #[schemars(skip)]
    Rows {
        rows: Vec<ProcRow>,
        /// Processes that are not among them, since there are too many.
        left_out: u64,
        /// Members that did not answer; processes of these homes are missing.
        silent: Vec<NodeName>,
    },
}

/// The changes of `armento farm trust`; a setting that is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustChange {
    /// Rules as in the manual page of `armento farm`.
    #[serde(default)]
    pub send_to: Option<Vec<String>>,
    #[serde(default)]
    pub accept_from: Option<Vec<String>>,
    #[serde(default)]
    pub allow_root: Option<bool>,
    /// First drop earlier changes: the configuration applies again.
    #[serde(default)]
    pub reset: bool,
    /// Return what would apply; change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// Counts this daemon's decisions.
    pub seq: u64,
    /// Unix time, milliseconds.
    pub at_ms: u64,
    pub pid: Pid,
    pub uid: u32,
    pub command: String,
    pub from: NodeName,
    pub to: NodeName,
    /// `placed` at its exec; by the policy: `memory` runs out, a better `share` of a processor, a `turn` for equal
    /// progress, its `files`, a `drain` of its home; `asked` by a user; `not-trusted` there any more; `stop` or `bring`; the code of a reason why it came
    /// home by itself.
    pub cause: String,
    /// Its share where it was, and that at the target, thousandths of a standard core.
    pub now_milli: Option<u64>,
    pub then_milli: Option<u64>,
    /// The cost of the move, milliseconds of a standard core.
    pub price_ms: Option<u64>,
    /// Distance behind the mean progress of all processes of this home, milliseconds of a standard core.
    pub lag_ms: Option<i64>,
    /// The part of its time that it loses to files where it was, and at the target, thousandths.
    #[serde(default)]
    pub lost_now_permille: Option<u64>,
    #[serde(default)]
    pub lost_then_permille: Option<u64>,
    /// Of the order; 0 if there was none.
    #[serde(skip)]
    pub ticket: u64,
    pub outcome: Outcome,
}

/// What a process loses by being away from its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwayPrice {
    /// Where it is, or the node where it would get on best.
    pub node: NodeName,
    /// Calls a second that wait for home from there.
    pub calls_per_s: u64,
    /// Bytes a second to home and back.
    pub bytes_per_s: u64,
    /// The part of its time that it loses there, thousandths.
    pub lost_permille: u64,
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Outcome {
    UnderWay,
    Moved {
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    /// A program started.
    Began,
    Stayed {
        stay: Stay,
        detail: String,
    },
    /// It, or its keeper, ended first.
    Gone,
    /// Nothing was done: the policy only reports its decision.
    DryRun,
}

/// The trust settings of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustInfo {
    pub node: NodeName,
    /// `None`: every node and user.
    pub send_to: Option<Vec<String>>,
    pub accept_from: Option<Vec<String>>,
    pub allow_root: bool,
    /// Which of them were changed by command and override the configuration.
    pub changed: Vec<String>,
    /// This home's processes on nodes where they may not be any more, on their way home.
    pub homeward: u64,
    /// Guests here that are not accepted any more, on their way home.
    pub expelled: u64,
}

/// One node, from the view of the node that was asked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    pub name: NodeName,
    pub addr: String,
    /// `alive`, `suspect`, `down`, `leaving`.
    pub state: String,
    pub here: bool,
    /// Smoothed runnable work over speed; 1.0 = one process per standard processor.
    pub load: f64,
    /// Speed of one core; 10000 = the calibration's standard core.
    pub speed: u32,
    pub cores: u32,
    pub mem_total_kib: u64,
    pub mem_free_kib: u64,
    pub guests: u32,
    /// … of which are frozen because their home does not answer; reported by the node itself.
    #[serde(default)]
    pub frozen: u32,
    /// It accepts none for now: a switch of `armento farm`, or its owner is active.
    #[serde(default)]
    pub shut: bool,
    /// … because an administrator drains it: its guests leave, too.
    #[serde(default)]
    pub drained: bool,
    /// Age of this data, milliseconds.
    pub age_ms: u64,
    /// `tls` or `plain`.
    pub wire: String,
    pub version: String,
    /// How far its clock is ahead of the clock of the node that was asked, microseconds; `None`: unknown.
    #[serde(default)]
    pub clock_us: Option<i64>,
    /// … too far for moves between the two.
    #[serde(default)]
    pub clock_apart: bool,
}

impl NodeInfo {
    /// For display: its state, or that it accepts no guests, or is drained.
    pub fn standing(&self) -> &str {
        match self.state.as_str() {
            "alive" if self.drained && self.guests > 0 => "draining",
            "alive" if self.drained => "drained",
            "alive" if self.shut => "shut",
            state => state,
        }
    }
}
