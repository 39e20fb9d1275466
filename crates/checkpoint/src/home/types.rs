//! What a checkpoint holds of processes beside memory and threads, as data.

use super::kinds::Description;
use super::values::{Bytes, Identity, Lock};
use armento_model::Pid;
use serde::{Deserialize, Serialize};

/// Resource limits of Linux, RLIMIT_CPU (0) to RLIMIT_RTTIME (15). KERNEL: include/uapi/asm-generic/resource.h.
pub const LIMITS: usize = 16;

/// All processes of a checkpoint, with what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// The root first; each process after its parent.
    pub processes: Vec<Process>,
    /// Open file descriptions, each once: descriptors name them by index.
    pub descriptions: Vec<Description>,
    /// Pipes and FIFOs whose ends are inside.
    pub pipes: Vec<Pipe>,
    /// Pairs of connected Unix sockets whose ends are inside.
    pub pairs: Vec<Pair>,
    /// Memory without a file that its processes share, or have open.
    pub memory: Vec<Memory>,
    /// Seconds and nanoseconds of CLOCK_REALTIME at the capture.
    pub taken: (i64, u32),
}

impl Home {
    /// The process at which the tree begins.
    pub fn root(&self) -> Option<&Process> {
        self.processes.first()
    }

    pub fn process(&self, pid: Pid) -> Option<&Process> {
        self.processes.iter().find(|p| p.pid == pid)
    }

    /// Index of a process, which is its place on the board of a restart.
    pub fn index(&self, pid: Pid) -> Option<usize> {
        self.processes.iter().position(|p| p.pid == pid)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: Pid,
    pub ppid: Pid,
    /// Index of the parent in [`Home::processes`]; none for the root, and for a process whose parent is outside.
    pub parent: Option<u32>,
    pub pgid: Pid,
    pub sid: Pid,
    pub comm: Bytes,
    pub argv: Vec<Bytes>,
    pub exe: Program,
    pub cwd: Bytes,
    pub umask: u32,
    /// Real, effective, saved, of the file system.
    pub uids: [u32; 4],
    pub gids: [u32; 4],
    pub groups: Vec<u32>,
    pub no_new_privs: bool,
    /// Soft and hard, by number of the resource.
    pub limits: [Limit; LIMITS],
    pub nice: i32,
    pub oom_score_adj: i32,
    /// personality(2), where it could be read.
    pub personality: Option<u32>,
    /// Device number of the controlling terminal, as `stat` of proc(5) shows it.
    pub terminal: Option<u32>,
    pub descriptors: Vec<Descriptor>,
    /// Record locks (POSIX): they belong to the process.
    pub locks: Vec<RecordLock>,
}

impl Process {
    /// Descriptors that are to be closed by the next exec. A restart leaves them open over its own exec; the engine sets
    /// FD_CLOEXEC on them in the program.
    pub fn close_on_exec(&self) -> Vec<i32> {
        let marked = self.descriptors.iter().filter(|d| d.cloexec);
        marked.map(|d| d.fd).collect()
    }

    /// As `ps` shows it.
    pub fn command(&self) -> String {
        let words: Vec<String> = self.argv.iter().map(ToString::to_string).collect();
        words.join(" ")
    }
}

/// A limit of a resource; `u64::MAX` is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub fd: i32,
    pub cloexec: bool,
    /// Index in [`Home::descriptions`].
    pub description: u32,
}

/// A file that is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub path: Bytes,
    pub identity: Identity,
}

/// A pipe between processes of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// F_GETPIPE_SZ.
    pub capacity: u32,
    /// What was written and not read yet.
    #[serde(with = "serde_bytes")]
    pub waiting: Vec<u8>,
}

/// Two Unix sockets that are connected to each other; the ends are described by [`super::Kind::Socket`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET.
    pub sort: u32,
    /// What each end has received and not read yet (streams only).
    pub waiting: [Bytes; 2],
}

/// Memory that is a file of the kernel's only: a memfd, or what was mapped with MAP_SHARED | MAP_ANONYMOUS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Of memfd_create(2); none: it was mapped without a file.
    pub name: Option<Bytes>,
    /// As `/proc/PID/maps` has them: the major number of the device shifted by 32, and the minor one; the inode.
    pub dev: u64,
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Permissions, of a memfd.
    pub mode: u32,
    /// F_GET_SEALS, of a memfd.
    pub seals: u32,
    /// A process has it open: its content is kept by itself. Otherwise it comes with the memory of those that map it.
    pub open: bool,
    /// Indexes of the processes that map it.
    pub mapped_by: Vec<u32>,
}

/// A record lock, taken again at a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLock {
    /// A descriptor of the locked file.
    pub fd: i32,
    pub lock: Lock,
}
