//! Everything a keeper and a host say to each other beside calls and replies.

use crate::WireError;
use armento_model::{CpuTime, MoveId, Pid, Stay, Tid, TreeId};
use serde::{Deserialize, Serialize};
use std::fmt;

pub const TALK: u8 = 3;

/// A host's first frame on a connection for calls, behind the keeper's hello: the number of the last frame that it has
/// heard from home, u64. What follows is the session's (`session.rs`).
pub const WELCOME: u8 = 4;

/// First frame of every connection to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub engine: u32,
    pub tree: TreeId,
    pub purpose: Purpose,
    /// CLOCK_MONOTONIC at home when this was sent, nanoseconds.
    pub monotonic_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The keeper's calls stream, begun or taken up again: a newer connection replaces the older.
    Calls(Resume),
    /// The image of one process comes in; from the keeper or another host.
    Bring(MoveId),
    /// The keeper fetches the image of a process that comes home.
    Fetch(MoveId),
    /// … what shared memory that lasts holds now.
    Object(ObjectId),
}

/// Which stream a connection carries on, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub session: SessionId,
    /// Counts the connections, the first is 0: one that is no newer than another is refused.
    pub epoch: u32,
    /// Number of the last frame that home has heard.
    pub heard: u64,
    /// Home's own limits: without word a tree is frozen after the one and ended after the other, at the latest.
    pub freeze_ms: u64,
    pub dead_ms: u64,
}

/// Made by the keeper by chance; the two ends know it and nobody else.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionId(pub u128);

/// Never prints it.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

/// Memory that processes share, as home's kernel numbers it, for as long as it lives.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ObjectId {
    pub dev: u64,
    pub ino: u64,
}

impl ObjectId {
    /// Name of the file of memory that stands for it at a host.
    pub fn name(&self) -> String {
        format!("as-{:x}-{:x}", self.dev, self.ino)
    }
}

/// The file behind a mapping, as home knows it. Equal keys mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileKey {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    /// When it was changed last. KERNEL: inode(7): unlike the time of modification no program can set it.
    pub ctime_ns: i64,
}

/// siginfo_t, 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal(#[serde(with = "serde_bytes")] pub Vec<u8>);

/// Host to home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToHome {
    /// Make the deputy fork, or make a thread; answered by `ToHost::Forked`.
    Fork {
        tid: Tid,
        seq: u32,
        flags: u64,
        exit_signal: i32,
        thread: bool,
    },
    /// Execve packed like a call follows in a Call frame; these are the dispositions it must start with.
    Ignored {
        pid: Pid,
        tid: Tid,
        ignored: u64,
        /// Signals from home that this body has had so far.
        heard: u64,
        /// CPU used away by the process, and by this thread of it, which will be its only one.
        away: CpuTime,
        thread_away: CpuTime,
    },
    /// exit_group at the body, or its last thread ended.
    Exit {
        pid: Pid,
        code: i32,
        /// CPU used away; nothing when its clock is gone with it.
        away: CpuTime,
    },
    ThreadExit {
        pid: Pid,
        tid: Tid,
    },
    /// The body died of something that is not its own doing.
    Died {
        pid: Pid,
        sig: i32,
    },
    /// A signal without a handler: home's kernel takes the default action.
    Default {
        pid: Pid,
        tid: Tid,
        sig: i32,
        info: Signal,
        /// CPU used away, should this be its end.
        away: CpuTime,
    },
    /// A call that only home can serve.
    ComeHome {
        pid: Pid,
        tid: Tid,
        stay: Stay,
        why: String,
        /// The other process that the call is about.
        about: Option<Pid>,
    },
    /// The deputy maps a file (arguments of mmap); answered by `ToHost::Mapped`.
    Map {
        tid: Tid,
        seq: u32,
        args: [u64; 6],
    },
    /// Bytes of a file by key; answered by `ToHost::FileBytes` frames.
    Fetch {
        seq: u32,
        key: FileKey,
    },
    /// Bytes of a file that the program reads in order, before it asks for them; answered by `ToHost::Ahead`.
    Ahead {
        pid: Pid,
        seq: u32,
        fd: i32,
        /// `None`: the first time; home looks whether nobody else reads or writes there.
        from: Option<From>,
    },
    /// How far it has read: descriptor and offset. `over`: descriptors that are read ahead no more.
    Stands {
        pid: Pid,
        list: Vec<(i32, u64)>,
        over: Vec<i32>,
    },
    /// The source has begun to freeze: break what the process waits for at home; answered by `ToHost::Held`.
    Freezing {
        mv: MoveId,
        pid: Pid,
        seq: u32,
    },
    /// The target has everything and waits for Thaw.
    Ready {
        mv: MoveId,
        bytes: u64,
        /// CPU that the process used away before.
        away: CpuTime,
    },
    Failed {
        mv: MoveId,
        stay: Stay,
        detail: String,
    },
    Thawed {
        mv: MoveId,
    },
    Warmed {
        mv: MoveId,
    },
    /// A signal was queued at the body for a thread that waits for this call: break it, if it blocks.
    Nudge {
        tid: Tid,
        seq: u32,
    },
    /// Arguments and environment, as far as they have changed: the body wrote over them.
    Words(Words),
    /// About once a second: CPU used away by each body; resident KiB; how busy.
    Usage {
        list: Vec<Usage>,
    },
    /// What does home's CLOCK_MONOTONIC say? Answered by `ToHost::Clock`.
    Clock {
        asked_ns: u64,
    },
    Alive,
}

/// Bytes of a process that others read as its command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Words {
    pub pid: Pid,
    pub at: u64,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Where a reading program and its read-ahead stand, bytes from the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    pub program: u64,
    pub ahead: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    pub pid: Pid,
    pub away: CpuTime,
    pub rss_kib: u64,
    /// Share of its time in which a thread of it wanted a processor, percent.
    pub busy_percent: u8,
}

/// Home to host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToHost {
    Forked {
        tid: Tid,
        seq: u32,
        ret: i64,
        /// It cannot be made for a process that is away: it comes home first.
        stay: Option<Stay>,
    },
    /// The deputy exec'd: this body is no more.
    Execed {
        pid: Pid,
    },
    Signal {
        pid: Pid,
        tid: Option<Tid>,
        info: Signal,
    },
    /// What home's kernel did with a default action: nothing (go on), or it stopped the process.
    Defaulted {
        pid: Pid,
        tid: Tid,
        stopped: bool,
    },
    /// It comes home for its default action: its thread waits.
    Dumps {
        pid: Pid,
        tid: Tid,
    },
    /// SIGCONT ended the stop.
    Continue {
        pid: Pid,
    },
    /// The deputy is dead.
    Kill {
        pid: Pid,
    },
    /// Processes that map these files are about to come: fetch what is not here. Answered by `ToHome::Warmed`.
    Warm {
        mv: MoveId,
        files: Vec<FileKey>,
    },
    /// Home has what this object held, and nobody maps it here.
    Forget {
        object: ObjectId,
    },
    /// Address or negative errno; the file's key; or why it must come home for this.
    Mapped {
        seq: u32,
        ret: i64,
        key: Option<FileKey>,
        stay: Option<Stay>,
    },
    /// From here on home keeps the signals of the process that freezes: what it sent before is on this
    /// stream before this.
    Held {
        seq: u32,
    },
    FileBytes {
        seq: u32,
        off: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        end: bool,
    },
    /// `at`: offset of the first byte; `None` when home does not permit it. `end`: the file ends behind them.
    Ahead {
        pid: Pid,
        seq: u32,
        fd: i32,
        at: Option<u64>,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        end: bool,
    },
    /// Somebody wants to write what is read ahead: say where the program stands, and that it is over.
    AheadOff {
        pid: Pid,
        fd: i32,
    },
    /// A timer is being set anew: its signals before this are void, those behind it are not.
    TimerVoid {
        pid: Pid,
        timer: i32,
    },
    /// Bytes that the deputy's kernel wrote at an address of the program.
    Poke {
        tid: Tid,
        addr: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Be the source of a move: to another host, or to the keeper's Fetch connection.
    Send {
        mv: MoveId,
        pid: Pid,
        to: Whither,
    },
    /// The move is off: the body goes on where it is.
    Abort {
        mv: MoveId,
        pid: Pid,
    },
    /// The body you built owns the process now.
    Thaw {
        mv: MoveId,
        pid: Pid,
    },
    /// The process runs elsewhere: forget the frozen body.
    Drop {
        mv: MoveId,
        pid: Pid,
    },
    Clock {
        asked_ns: u64,
        ns: u64,
    },
    /// Resource, soft and hard limit, as somebody at home has set them.
    Limits {
        pid: Pid,
        limits: Vec<(u32, u64, u64)>,
    },
    /// Niceness of threads.
    Nice {
        list: Vec<(Tid, i32)>,
    },
    Alive,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Whither {
    /// The keeper opens a `Fetch` connection to the source.
    Home,
    /// Dial another host; `expect` is the badge it must show, as JSON.
    Host { addr: String, expect: String },
}

pub fn encode<T: Serialize>(m: &T) -> Vec<u8> {
    // Plain data into memory cannot fail.
    postcard::to_stdvec(m).unwrap_or_default()
}

pub fn decode<'a, T: Deserialize<'a>>(b: &'a [u8], what: &'static str) -> Result<T, WireError> {
    postcard::from_bytes(b).map_err(|_| WireError::Garbled(what))
}
