//! All messages between a keeper and a host other than calls and replies.

use crate::WireError;
use crate::sockets::{SocketNews, SocketOrder};
use armento_model::{CpuTime, FileCounts, FileIdentity, HomePid, HomeTid, MoveId, Stay, TreeId};
use serde::{Deserialize, Serialize};
use std::fmt;

pub const TALK: u8 = 3;

/// A host's first frame on a connection for calls, after the keeper's hello: the number of the last frame that it has
/// received from home, u64. What follows is the session's (`session.rs`).
pub const WELCOME: u8 = 4;

/// How long a permission to post writes to a descriptor holds, milliseconds. Home has seen that the file system has more
/// space than all that use it can write in that time ([`POSTS_MARGIN`]).
pub const POSTS_MS: u64 = 200;
/// Free bytes below which no file system gets posted writes: 20 GB/s for [`POSTS_MS`].
pub const POSTS_MARGIN: u64 = 4 << 30;

/// Offset up to which writes are posted: no file system that has them fails with EFBIG below. KERNEL: ext4(5): 16 TiB with
/// blocks of 4 KiB, 4 TiB with blocks of 1 KiB; 2 TiB without extents.
pub const POSTS_OFFSET_MAX: u64 = 1 << 40;

/// Bytes that are read ahead at once, at most.
pub const READAHEAD_MAX: u32 = 2 << 20;

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
    /// The keeper's calls stream, new or continued: a newer connection replaces the older.
    Calls(Resume),
    /// The image of one process comes in; from the keeper or another host.
    Bring(MoveId),
    /// The keeper fetches the image of a process that comes home.
    Fetch(MoveId),
    /// The keeper fetches the current content of a persistent shared memory object.
    Object(ObjectId),
    /// Another host brings the bytes of a connection between two processes, by its number.
    Socket(u64),
}

/// Which stream a connection continues, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub session: SessionId,
    /// Counts the connections, the first is 0: one that is not newer than the current one is refused.
    pub epoch: u32,
    /// Number of the last frame that home has received.
    pub heard: u64,
    /// Home's own limits: without messages from home a tree is frozen after the first and ended after the second, at
    /// the latest.
    pub freeze_ms: u64,
    pub dead_ms: u64,
}

/// Chosen randomly by the keeper; known to the two ends only.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionId(pub u128);

/// Hides its value.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

/// Memory that processes share, with the number of home's kernel, valid while the object exists.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ObjectId {
    pub dev: u64,
    pub ino: u64,
}

impl ObjectId {
    /// Name of the memfd that represents it at a host.
    pub fn name(&self) -> String {
        format!("as-{:x}-{:x}", self.dev, self.ino)
    }
}

/// The file behind a mapping, as identified at home. Equal keys mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileKey {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    /// Time of its last change. KERNEL: inode(7): unlike the modification time no program can set it.
    pub ctime_ns: i64,
}

/// siginfo_t, 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal(#[serde(with = "serde_bytes")] pub Vec<u8>);

/// Host to home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToHome {
    /// The deputy must fork, or create a thread; answered by `ToHost::Forked`.
    Fork {
        tid: HomeTid,
        seq: u32,
        flags: u64,
        exit_signal: i32,
        thread: bool,
    },
    /// Execve, packed like a call, follows in a Call frame; these are the dispositions with which it must start.
    Ignored {
        pid: HomePid,
        tid: HomeTid,
        ignored: u64,
        /// Number of signals that this body has received from home so far.
        heard: u64,
        /// CPU time used away by the process, and by this thread of it, which will be its only one.
        away: CpuTime,
        thread_away: CpuTime,
    },
    /// exit_group at the body, or its last thread ended.
    Exit {
        pid: HomePid,
        code: i32,
        /// CPU time used away; zero if its clock is gone with it.
        away: CpuTime,
    },
    ThreadExit {
        pid: HomePid,
        tid: HomeTid,
    },
    /// The body died of a cause that is not the program's.
    Died {
        pid: HomePid,
        sig: i32,
    },
    /// A signal without a handler: home's kernel takes the default action.
    Default {
        pid: HomePid,
        tid: HomeTid,
        sig: i32,
        info: Signal,
        /// CPU time used away, in case the process ends by this.
        away: CpuTime,
    },
    /// A call that can be executed only at home.
    ComeHome {
        pid: HomePid,
        tid: HomeTid,
        stay: Stay,
        why: String,
        /// The other process that the call refers to.
        about: Option<HomePid>,
    },
    /// The deputy maps a file (arguments of mmap); answered by `ToHost::Mapped`.
    Map {
        tid: HomeTid,
        seq: u32,
        args: [u64; 6],
    },
    /// Bytes of a file by key; answered by `ToHost::FileBytes` frames.
    Fetch {
        seq: u32,
        key: FileKey,
    },
    /// Bytes of a file that the program reads sequentially, requested before the program reads them; answered by
    /// `ToHost::Ahead`.
    Ahead {
        pid: HomePid,
        seq: u32,
        fd: i32,
        /// `None`: the first request; home checks that no other process reads or writes there.
        from: Option<From>,
        /// How many bytes are wanted; at most [`READAHEAD_MAX`] are sent.
        len: u32,
    },
    /// How far it has read: descriptor and offset. `over`: descriptors for which read-ahead has ended.
    Stands {
        pid: HomePid,
        list: Vec<(i32, u64)>,
        over: Vec<i32>,
    },
    /// The source has begun to freeze: interrupt the call in which the process waits at home; answered by
    /// `ToHost::Held`.
    Freezing {
        mv: MoveId,
        pid: HomePid,
        seq: u32,
    },
    /// The target has everything and waits for Thaw.
    Ready {
        mv: MoveId,
        bytes: u64,
        /// CPU time that the process used away before.
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
    /// A signal was queued at the body for a thread that waits for this call: interrupt the call, if it blocks.
    Nudge {
        tid: HomeTid,
        seq: u32,
    },
    /// Arguments and environment, as far as they have changed: the body overwrote them.
    Words(Words),
    /// Offsets of descriptors whose files are open at the host. A call that follows may depend on them.
    Offsets {
        pid: HomePid,
        list: Vec<(i32, u64)>,
    },
    /// Answers `ToHost::ProveMount`; or why this node does not share the mount.
    MountSeen {
        seq: u32,
        seen: Result<Box<MountSeen>, String>,
    },
    /// About once a second: CPU time used away by each body; resident KiB; how busy.
    Usage {
        list: Vec<Usage>,
    },
    /// Requests home's CLOCK_MONOTONIC. Answered by `ToHost::Clock`.
    Clock {
        asked_ns: u64,
    },
    Socket(SocketNews),
    Alive,
    /// Calls on a descriptor that is read ahead, answered from what came before (`ToHost::TellReads`), thread by thread in their
    /// order. Since engine 29.
    Reads {
        list: Vec<ServedRead>,
    },
}

/// A read(2), pread64(2) or lseek(2) that a host answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedRead {
    pub tid: HomeTid,
    pub nr: u16,
    pub args: [u64; 6],
    pub ret: i64,
}

/// What a host sees below a mount that both nodes declare as shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSeen {
    /// `f_type` of statfs(2).
    pub magic: i64,
    /// Its node declares it as relaxed.
    pub relaxed: bool,
    /// The kernel that runs there. KERNEL: random(4), boot_id.
    pub kernel: String,
    /// What it found in home's file.
    pub found: ProofFile,
    /// A file that it wrote, for home to find.
    pub written: ProofFile,
}

/// A file of random name and content in a shared mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofFile {
    pub name: String,
    #[serde(with = "serde_bytes")]
    pub content: Vec<u8>,
    pub identity: FileIdentity,
}

/// A regular file below a shared mount, as a descriptor of home has it open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectFile {
    /// The mount point.
    #[serde(with = "serde_bytes")]
    pub mount: Vec<u8>,
    /// The path below it.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Access mode and status flags, as open(2) takes them.
    pub flags: i32,
    pub identity: FileIdentity,
}

/// Bytes of a process that other processes read as its command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Words {
    pub pid: HomePid,
    pub at: u64,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Positions of a reading program and of its read-ahead, bytes from the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    pub program: u64,
    pub ahead: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    pub pid: HomePid,
    pub away: CpuTime,
    pub rss_kib: u64,
    /// Share of its time in which a thread of it was runnable, percent.
    pub busy_percent: u8,
    /// Calls on files since it came.
    pub files: FileCounts,
}

/// A device of the kernel's own, and what its descriptor is open for. KERNEL: null(4), full(4), random(4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub kind: DeviceKind,
    pub reads: bool,
    pub writes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    Null,
    Zero,
    Full,
    Random,
}

/// Posted calls, and the bytes that they write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    pub calls: u64,
    pub bytes: u64,
}

/// The first bytes of a file, or entries of a directory as getdents(2) gives them. `end`: it has no more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beginning {
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    pub end: bool,
    pub directory: bool,
}

/// Home to host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToHost {
    Forked {
        tid: HomeTid,
        seq: u32,
        ret: i64,
        /// It cannot be created for a process that is away: the process comes home first.
        stay: Option<Stay>,
    },
    /// The deputy exec'd: this body is obsolete.
    Execed {
        pid: HomePid,
    },
    Signal {
        pid: HomePid,
        tid: Option<HomeTid>,
        info: Signal,
    },
    /// The effect of a default action at home's kernel: none (go on), or it stopped the process.
    Defaulted {
        pid: HomePid,
        tid: HomeTid,
        stopped: bool,
    },
    /// It comes home for a core dump: its thread waits.
    Dumps {
        pid: HomePid,
        tid: HomeTid,
    },
    /// SIGCONT ended the stop.
    Continue {
        pid: HomePid,
    },
    /// The deputy is dead.
    Kill {
        pid: HomePid,
    },
    /// Processes that map these files will arrive soon: fetch those missing here. Answered by `ToHome::Warmed`.
    Warm {
        mv: MoveId,
        files: Vec<FileKey>,
    },
    /// Home has this object's content, and no process maps it here.
    Forget {
        object: ObjectId,
    },
    /// Address or negative errno; the file's key; or the reason why it must come home for this.
    Mapped {
        seq: u32,
        ret: i64,
        key: Option<FileKey>,
        stay: Option<Stay>,
    },
    /// From here on home keeps the signals of the process that freezes: those sent before precede this on the stream.
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
    /// `at`: offset of the first byte; `None` if home does not permit it. `end`: the file ends after them.
    Ahead {
        pid: HomePid,
        seq: u32,
        fd: i32,
        at: Option<u64>,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        end: bool,
    },
    /// Another process is about to write what is read ahead: report the program's position, and end the read-ahead.
    AheadOff {
        pid: HomePid,
        fd: i32,
    },
    /// A timer is being set anew: its signals before this are void, later ones are not.
    TimerVoid {
        pid: HomePid,
        timer: i32,
    },
    /// Bytes that the deputy's kernel wrote at an address of the program.
    Poke {
        tid: HomeTid,
        addr: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Be the source of a move: to another host, or to the keeper's Fetch connection.
    Send {
        mv: MoveId,
        pid: HomePid,
        to: Whither,
    },
    /// The move is cancelled: the body goes on where it is.
    Abort {
        mv: MoveId,
        pid: HomePid,
    },
    /// The body that you built owns the process now.
    Thaw {
        mv: MoveId,
        pid: HomePid,
    },
    /// The process runs elsewhere: discard the frozen body.
    Drop {
        mv: MoveId,
        pid: HomePid,
    },
    Clock {
        asked_ns: u64,
        ns: u64,
    },
    /// Resource, soft and hard limit, as set by a process at home.
    Limits {
        pid: HomePid,
        limits: Vec<(u32, u64, u64)>,
    },
    /// Nice values of threads.
    Nice {
        list: Vec<(HomeTid, i32)>,
    },
    /// A descriptor refers to a regular file of a local file system, or to a device: it can be closed by a posted call. `writes`: bytes
    /// that may be posted to it within [`POSTS_MS`]; 0 if none may.
    /// Sent before the reply to the call that asked.
    Descriptor {
        tid: HomeTid,
        seq: u32,
        fd: i32,
        writes: u64,
        /// struct stat, as the call found it; empty if it made no description.
        #[serde(with = "serde_bytes")]
        stat: Vec<u8>,
        /// The file's first bytes, under a lease, if the call has opened it for reading only.
        begin: Option<Beginning>,
        /// It is no file but a device that is the same on every machine.
        device: Option<Device>,
    },
    /// The file that a call has opened lies below a mount that the host sees as home does: it may open it itself.
    /// Nothing else has the description. Sent before the reply to that call.
    Direct {
        tid: HomeTid,
        seq: u32,
        fd: i32,
        file: DirectFile,
    },
    /// Home has written a file of that name below a mount that it declares as shared; answered by `ToHome::MountSeen`.
    ProveMount {
        seq: u32,
        #[serde(with = "serde_bytes")]
        mount: Vec<u8>,
        name: String,
    },
    /// Home has found the host's file of that name, or will not: the host removes it.
    MountProved {
        #[serde(with = "serde_bytes")]
        mount: Vec<u8>,
        name: String,
    },
    /// The entries of a directory, by a path without symbolic links, until [`ToHost::ForgetNames`]. Lookups in it depend
    /// on them alone.
    Directory {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        /// Device and inode.
        id: (u64, u64),
        /// Its symbolic links are not to be followed by what is known.
        guarded: bool,
        /// For each entry the byte of its type (getdents(2), `?` if unknown), its name, a zero byte.
        #[serde(with = "serde_bytes")]
        names: Vec<u8>,
    },
    /// Where a symbolic link in such a directory leads.
    Link {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// What statx(2) says of entries of such a directory, and, under the empty name, of itself (`abi/src/attributes.rs`);
    /// nothing: home will not tell it. `birth`: the file system tells the time of birth also when it is not asked for.
    Attributes {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        birth: bool,
        list: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
    },
    /// The working directory of a process.
    WorkingDirectory {
        pid: HomePid,
        /// The call that asked: what has changed it since makes this void.
        seq: u32,
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        id: (u64, u64),
    },
    /// Everything known of names may have changed.
    ForgetAll,
    /// What is at or below the paths `below` has changed, or only the attributes of `files`.
    ForgetNames {
        below: Vec<serde_bytes::ByteBuf>,
        files: Vec<serde_bytes::ByteBuf>,
    },
    /// All posted calls that home has carried out so far, or that were of threads that had ended.
    Posted(Posted),
    /// A posted call failed, although that was excluded: the next call on the descriptor gets this errno.
    PostFailed {
        pid: HomePid,
        fd: i32,
        errno: i32,
    },
    Socket(SocketOrder),
    Alive,
    /// No process of the tree is on its way: a host without guests ends. Its keeper becomes another program.
    End,
    /// The process is kept safe: what is answered of this descriptor is told (`ToHome::Reads`). Before the first `Ahead` of it.
    /// Since engine 29.
    TellReads {
        pid: HomePid,
        fd: i32,
    },
}

/// The engine version that brought `ToHome::Reads`.
pub const READS_SINCE: u32 = 29;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Whither {
    /// The keeper opens a `Fetch` connection to the source.
    Home,
    /// The same, and the keeper keeps what comes as a checkpoint: the body goes on when home sends Abort. `after`: the move
    /// that brought the checkpoint that is kept, upon which this one may be put.
    Checkpoint { after: Option<MoveId> },
    /// Connect to another host; `expect` is the badge it must show, as JSON.
    Host { addr: String, expect: String },
}

pub fn encode<T: Serialize>(m: &T) -> Vec<u8> {
    // Plain data into memory cannot fail.
    postcard::to_stdvec(m).unwrap_or_default()
}

pub fn decode<'a, T: Deserialize<'a>>(b: &'a [u8], what: &'static str) -> Result<T, WireError> {
    postcard::from_bytes(b).map_err(|_| WireError::Garbled(what))
}
