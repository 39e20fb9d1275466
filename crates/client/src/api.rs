//! The control API: one schema for every command and screen.
//!
//! ```text
//! client → daemon   {"v":1,"id":7,"ask":{"type":"nodes"}}
//! daemon → client   {"v":1,"id":7,"ok":{"type":"nodes","nodes":[…]}}
//!                   {"v":1,"id":7,"err":{"code":"no-such-node","message":"…","hint":"…"}}
//! daemon → keeper   {"v":1,"order":{"type":"move","pid":812,"to":{"node":"n3"},"ticket":5}}
//! ```
//! A line is at most [`LINE_MAX`] bytes; a longer one ends the session.

pub use armento_gossip::{CpuSet, STANDARD_SPEED};
use armento_model::{Hint, NodeName, Pid, Stay, Tid, TreeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest line either side accepts, bytes.
pub const LINE_MAX: usize = 1 << 20;

/// Keepers and hosts ask for a new identity this often. It lives a day, costs a millisecond, and a machine
/// that slept for longer soon has a valid one again.
pub const RENEW: Duration = Duration::from_secs(15 * 60);

/// Where the daemon listens; `ARMENTO_SOCKET` overrides it.
pub const SOCKET: &str = "/run/armento/control.sock";

/// Path of the control socket on this node.
pub fn socket_path() -> std::path::PathBuf {
    std::env::var_os("ARMENTO_SOCKET").map_or_else(|| SOCKET.into(), Into::into)
}

/// A line that the daemon leaves beside its socket while no program can leave this node, for those who start one.
pub fn node_note(socket: &std::path::Path) -> std::path::PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".note");
    path.into()
}

/// Everything that travels on a control session, either way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What its sender speaks (`version.rs`).
    pub v: u32,
    /// Chosen by the asker, repeated in the answer; 0 for orders and reports.
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
    /// Daemon to keeper or host, unasked.
    Order(Order),
    /// Keeper or host to daemon, unanswered.
    Report(Report),
}

/// Why the daemon said no. Nothing was changed unless `message` says so.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Stable word for scripts, e.g. `no-such-node`, `not-joined`, or a [`Stay::code`].
    pub code: String,
    pub message: String,
    pub hint: String,
}

impl Refusal {
    /// What stands beside the reason, where it is one to stay: the sentence of the reason itself is said by whoever
    /// prints it. Empty when the message says no more.
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

/// Where to move a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dest {
    Node(NodeName),
    Home,
    /// Home, and there it stays, untraced, until somebody moves it by hand or says `Balance`.
    Hold,
    /// It is held no more; or, if it was not, unlock it. Then the policy chooses.
    Balance,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// What was decided here, newer than `after`, the newest `count`.
    Log {
        #[serde(default)]
        after: u64,
        count: u32,
    },
    /// Answered when the move has ended (`Answer::Moved`) or was refused.
    Migrate {
        pid: Pid,
        to: Dest,
    },
    Leave,
    /// Who am I, what version, which farm.
    Status,
    /// Whom this node trusts; with `change`, from now on.
    Trust {
        #[serde(default)]
        change: Option<TrustChange>,
    },
    /// What an administrator has switched off here; with `change`, from now on.
    Switch {
        #[serde(default)]
        change: Option<SwitchChange>,
    },
    /// Read the configuration again, as SIGHUP does. What of it holds for running work holds at once.
    Reload,
    /// What do the processors of all living nodes have in common?
    Common,
    /// Take a node out of the farm for good, whether it likes it or not.
    Remove {
        node: NodeName,
        /// Without waiting for its guests and ours to go where they belong.
        #[serde(default)]
        now: bool,
    },

    // --- from a keeper; the session then carries its reports and orders ---
    /// First line of a keeper's session. The daemon checks the peer's uid.
    Keep(KeeperHello),
    /// From the process that `keeper` says hello for, before it becomes the user's program: this keeper may trace it and
    /// what it will start. Asked where Yama restricts tracing.
    AllowKeeper {
        keeper: Pid,
    },
    /// The kernel refuses to let this keeper trace `pid` of its tree: have the process name it to Yama.
    LetTrace {
        pid: Pid,
    },
    /// At an exec stop: where should this fresh image run? Answered within 5 ms or not at all
    /// (the keeper then lets it run at home).
    Place {
        tree: TreeId,
        pid: Pid,
        /// Command line, for hints and display.
        command: String,
        /// As in [`ProcInfo`].
        #[serde(default)]
        portable: bool,
    },
    /// The keeper decided to go to `node`: admit us there and hand us a way in.
    /// The daemon asks the target's daemon, which reserves room and starts a host.
    Route {
        tree: TreeId,
        pid: Pid,
        node: NodeName,
        /// Memory the process uses now, KiB.
        need_kib: u64,
        /// The keeper's engine: it may be older than its daemon.
        #[serde(default)]
        engine: u32,
        /// As in [`ProcInfo`].
        #[serde(default)]
        portable: bool,
    },

    /// Where is that node now? From a keeper whose host does not answer: its address may have changed.
    Address {
        node: NodeName,
    },

    // --- from a host; the session then carries its reports ---
    Host(HostHello),

    /// From a keeper or host that said hello on this session: a new identity, for the old one expires.
    Identity,
    /// Of a version to come (`version.rs`): said in tests, understood by nobody.
    #[serde(skip_deserializing)]
    ToCome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperHello {
    pub tree: TreeId,
    /// The keeper's own process.
    pub keeper: Pid,
    /// The process it was started for.
    pub root: Pid,
    /// That process and those that it descends from, when the tree is new: none of them may be held already. Empty
    /// from a keeper that finds its daemon again.
    #[serde(default)]
    pub above: Vec<Pid>,
    pub uid: u32,
    pub command: String,
    /// `--on NODE`: nobody else moves it.
    pub pinned: Option<NodeName>,
    /// `--stay`.
    pub stay: bool,
    /// `--storm MS`: the keeper itself moves the tree about; balance leaves it alone.
    pub storm: bool,
    /// `--portable`: what its programs use of a processor, if they were told.
    #[serde(default)]
    pub common: Option<CpuSet>,
    /// `--cpu`, `--io`.
    #[serde(default)]
    pub hint: Option<Hint>,
}

impl KeeperHello {
    /// It served its tree before; perhaps another daemon told it something.
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
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Answer {
    Done,
    /// To [`Ask::LetTrace`]: this thread was stopped for it in a sleep that is this call.
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
    },
    Moved {
        pid: Pid,
        node: NodeName,
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    Status {
        node: NodeName,
        farm: String,
        version: String,
        joined: bool,
    },
    Placed {
        node: Option<NodeName>,
    },
    Common {
        cpu: CpuSet,
        /// How glibc is told: the value of its tunable.
        hwcaps: String,
    },
    Trust(TrustInfo),
    Switches(SwitchInfo),
    Log {
        entries: Vec<LogEntry>,
    },
    Removed {
        node: NodeName,
        /// Processes that were lost with it: of ours there, and of its own elsewhere.
        lost: u64,
        /// Members that learn it later, from the others.
        untold: Vec<NodeName>,
    },
    Route(Pass),
    Address {
        ip: Option<std::net::IpAddr>,
        /// Of its daemon.
        #[serde(default)]
        port: Option<u16>,
    },
    Identity {
        identity: armento_link::Identity,
    },
}

/// What `armento farm trust` changes; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustChange {
    /// Rules as the manual page of `armento farm` has them.
    #[serde(default)]
    pub send_to: Option<Vec<String>>,
    #[serde(default)]
    pub accept_from: Option<Vec<String>>,
    #[serde(default)]
    pub allow_root: Option<bool>,
    /// First forget what was changed before: the configuration holds again.
    #[serde(default)]
    pub reset: bool,
    /// Say what would hold; change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `armento farm start`, `stop`, `block`, `stay`, `quiet`, `drain`, `expel` and `bring` change; what is `None`
/// stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchChange {
    /// Nobody comes, nobody leaves, everybody goes where they belong.
    pub stop: Option<bool>,
    /// Guests go, and none comes.
    pub drain: Option<bool>,
    /// No guest comes.
    pub block: Option<bool>,
    /// Ours leave only when a person says so.
    pub stay: Option<bool>,
    /// Tell nobody of this node's load, move nobody.
    pub quiet: Option<bool>,
    /// Guests go, once.
    pub expel: bool,
    /// Ours come home, once.
    pub bring: bool,
    /// This daemon is about to end with its machine or its package. Holds until it ends, and is not written down.
    pub ending: Option<Ending>,
}

/// What goes when a daemon is about to end for longer than a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The machine shuts down: guests go. Ours end with it, wherever they are.
    Machine,
    /// The package is removed: guests go, and ours come home, where they run on.
    Package,
}

/// What an administrator has switched off on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchInfo {
    pub node: NodeName,
    pub stopped: bool,
    pub drain: bool,
    pub block: bool,
    pub stay: bool,
    pub quiet: bool,
    /// Guests are being sent away.
    pub expels: bool,
    /// `owner_first` is set …
    #[serde(default)]
    pub owner_first: bool,
    /// … and the owner was seen of late.
    #[serde(default)]
    pub owner: bool,
    /// Ours that were told to come home and have not yet.
    pub brings: u64,
    /// Which of `block`, `stay`, `quiet` were changed by command and hold instead of the configuration.
    pub changed: Vec<String>,
    /// Processes of this home that are elsewhere.
    pub away: u64,
    /// Guests that are here …
    pub guests: u64,
    /// … and hosts that have not said since the last change whether they have any.
    pub unheard: u64,
}

/// Something that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `placed` at its exec; by the policy: `memory` runs out, a better `share` of a processor, a `turn` for
    /// equal progress; `asked` by a person; `not-trusted` there any more; `stop` or `bring`; the code of a reason why it
    /// came home by itself.
    pub cause: String,
    /// What it got where it was, and gets there, thousandths of a standard core.
    pub now_milli: Option<u64>,
    pub then_milli: Option<u64>,
    /// What the move costs, milliseconds of a standard core.
    pub price_ms: Option<u64>,
    /// How far it was behind the mean progress of all of this home's, milliseconds of a standard core.
    pub lag_ms: Option<i64>,
    /// Of the order; 0 where there was none.
    #[serde(skip)]
    pub ticket: u64,
    pub outcome: Outcome,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Outcome {
    UnderWay,
    Moved {
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    /// A program began.
    Began,
    Stayed {
        stay: Stay,
        detail: String,
    },
    /// It, or its keeper, ended first.
    Gone,
    /// Nothing was done: the policy only says what it would.
    DryRun,
}

/// Whom a node trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustInfo {
    pub node: NodeName,
    /// `None`: every node and user.
    pub send_to: Option<Vec<String>>,
    pub accept_from: Option<Vec<String>>,
    pub allow_root: bool,
    /// Which of them were changed by command and hold instead of the configuration.
    pub changed: Vec<String>,
    /// Processes of ours at nodes that they may not be at any more, on their way home.
    pub homeward: u64,
    /// Guests here that are not welcome any more, on their way home.
    pub expelled: u64,
}

/// A way to a host that was admitted for one tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pass {
    pub node: NodeName,
    /// `ip:port` where the host of this tree listens.
    pub addr: String,
    /// Our short-lived identity for this link, and whom to expect there.
    pub identity: armento_link::Identity,
    pub expect: armento_link::Badge,
    /// This node's settings of these names.
    #[serde(default = "default_freeze_ms")]
    pub freeze_ms: u64,
    #[serde(default = "default_dead_ms")]
    pub dead_ms: u64,
}

/// `design.md` §3: hosts freeze a tree after 10 s without its home, home declares death at 30 s.
pub const fn default_freeze_ms() -> u64 {
    10_000
}

pub const fn default_dead_ms() -> u64 {
    30_000
}

/// What daemons of before say by saying nothing.
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
        /// Nobody asked: it would even out the load.
        #[serde(default)]
        balances: bool,
        /// A person asked: it stays where it is put, until [`Dest::Balance`].
        #[serde(default)]
        by_hand: bool,
    },
    /// Bring every process of the tree home (the node leaves, or an administrator asks).
    Recall { ticket: u64 },
    /// To a host: send your guests away; keepers bring them home. Nobody comes in for a while.
    Expel {
        /// For the keepers' users; empty: the node leaves the farm.
        #[serde(default)]
        why: String,
        #[serde(default = "not_trusted")]
        stay: Stay,
        #[serde(default = "expelled_ms")]
        for_ms: u64,
    },
    /// To a keeper: nothing of yours goes to these nodes; who is there may come home.
    Closed { nodes: Vec<NodeName> },
    /// To a keeper or host: that node is no member any more. Links to it end, with whoever is there; ask for a new
    /// identity, with which no new ones begin.
    Cut { node: NodeName },
    /// Of a version to come (`version.rs`): said in tests, understood by nobody.
    #[serde(skip_deserializing)]
    ToCome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Report {
    /// From a keeper, once or twice a second and after every change: all living processes of the tree.
    Procs { procs: Vec<ProcInfo> },
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
    },
    /// It came home, and nobody had ordered that: its node sent it away, or only home could serve it.
    CameHome {
        pid: Pid,
        from: NodeName,
        stay: Stay,
        pause_us: u64,
        total_us: u64,
        bytes: u64,
    },
    /// A fresh program is under way no more: it arrived where it was to start, or starts here.
    Placed { pid: Pid },
    /// From a host.
    Guests { guests: Vec<GuestInfo> },
    /// Of a version to come (`version.rs`): said in tests, understood by nobody.
    #[serde(skip_deserializing)]
    ToCome,
}

/// One process as its keeper knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcInfo {
    pub pid: Pid,
    pub ppid: Pid,
    pub tree: TreeId,
    pub uid: u32,
    pub home: NodeName,
    /// The node where it runs now.
    pub place: NodeName,
    pub command: String,
    /// CPU used so far, home and away together, milliseconds.
    pub cpu_ms: u64,
    /// … of which away from home.
    pub away_cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    /// Share of its time, of late, in which it wanted a processor, percent.
    pub busy_percent: u8,
    pub moves: u64,
    /// System calls sent home so far.
    pub forwarded: u64,
    /// Why the last move did not happen, or why it may not move.
    pub stay: Option<Stay>,
    /// … what of it is in the way: a file, a call, the other node's words. Empty when nothing more is known.
    #[serde(default)]
    pub detail: String,
    /// … and the process for whose sake, where there is one: the tracer, who shares its memory.
    #[serde(default)]
    pub partner: Option<Pid>,
    pub locked: bool,
    /// For how long nothing was heard from where it runs, milliseconds, when that is longer than it should be.
    #[serde(default)]
    pub lost_ms: Option<u64>,
    /// … and so long that it was frozen there.
    #[serde(default)]
    pub frozen: bool,
    /// It was told to use only the features that the keeper's hello has as common.
    #[serde(default)]
    pub portable: bool,
    /// Age of the process, milliseconds.
    pub age_ms: u64,
}

/// One guest as its host knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestInfo {
    pub pid: Pid,
    pub tree: TreeId,
    pub home: NodeName,
    pub command: String,
    pub cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    /// As in [`ProcInfo`].
    pub busy_percent: u8,
    /// Its home was not heard for too long: it waits.
    #[serde(default)]
    pub frozen: bool,
}

/// One node as the node asked knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// … of which wait for a home that is not heard; told by the node itself.
    #[serde(default)]
    pub frozen: u32,
    /// It takes none for now: a switch of `armento farm`, or its owner is there.
    #[serde(default)]
    pub shut: bool,
    /// How old this knowledge is, milliseconds.
    pub age_ms: u64,
    /// `tls` or `plain`.
    pub wire: String,
    pub version: String,
    /// How far its clock is ahead of that of the node asked, microseconds; `None`: not seen.
    #[serde(default)]
    pub clock_us: Option<i64>,
    /// … too far for anything to move between the two.
    #[serde(default)]
    pub clock_apart: bool,
}

impl NodeInfo {
    /// For people: its state, or that it is shut.
    pub fn standing(&self) -> &str {
        match self.state.as_str() {
            "alive" if self.shut => "shut",
            state => state,
        }
    }
}

/// What a daemon writes to a new host's standard input, as one line of JSON.
/// The host answers with one line [`HostUp`] on its standard output, then closes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStart {
    pub node: NodeName,
    pub home: NodeName,
    pub tree: TreeId,
    /// The user at home.
    pub uid: u32,
    /// The user the host becomes on this machine.
    pub guest_uid: u32,
    /// Address to listen on, port 0.
    pub listen: String,
    pub identity: armento_link::Identity,
    /// The keeper of this tree. Hosts of this tree and user on any node of the farm are admitted, too: a node
    /// can join while this host lives.
    pub expect: armento_link::Badge,
    /// Where copies of this user's files at home are shared with his other trees here.
    pub files: Option<std::path::PathBuf>,
    pub mem_max_kib: Option<u64>,
    /// Most processes and threads, where the host has a user of its own.
    #[serde(default)]
    pub procs_max: u64,
    /// A tree that has not heard from its home for this long is frozen, milliseconds.
    pub freeze_ms: u64,
    /// … and ended, milliseconds.
    pub dead_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostUp {
    pub port: u16,
    pub host: Pid,
}

/// What a host says first: that it listens, or why no guest can live here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HostSaid {
    Up(HostUp),
    Unable { stay: Stay, detail: String },
}
