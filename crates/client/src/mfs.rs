//! Messages of MFS: between the daemon, its mount process and its file servers, and for `armento mfs`.
//!
//! ```text
//! daemon ── one line on stdin ──► armento mfs-mount    FilesStart, MfsStart: instructions
//!        ── one line on stdin ──► armento mfs-serve
//! both   ── one line on stdout ─► daemon               MfsUp
//! mount  ── control socket ─────► daemon               Ask::MfsRoute, MfsPlaces, MfsMade
//! daemon ── socket of the mount ► mount                a line of MfsStream for each connection
//! ```

use armento_model::{NodeName, Pid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the mount process says what its streams did, beside the control socket; for the daemon's user only.
pub fn socket_of_mount(control: &Path) -> PathBuf {
    let mut path = control.as_os_str().to_owned();
    path.push(".mfs");
    path.into()
}

/// Access to a file server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MfsRoute {
    /// `ip:port`.
    pub addr: String,
    /// Ours for this stream, and the badge to expect there. Always keys, whatever `wire` is: without them any program
    /// that reaches the port would have the user's files.
    pub identity: armento_link::Identity,
    pub expect: armento_link::Badge,
}

/// What the symbolic names mean for one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MfsPlaces {
    pub here: NodeName,
    pub home: NodeName,
    pub last_exec: NodeName,
    pub magic: NodeName,
    pub selected: NodeName,
}

/// A tree of files that a node serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesExport {
    pub path: PathBuf,
    pub read_only: bool,
    /// Not shown, and not to be reached.
    pub hidden: Vec<PathBuf>,
}

/// The line of JSON that a daemon writes to a new file server's standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilesStart {
    /// Address to listen on, port 0.
    pub listen: String,
    pub identity: armento_link::Identity,
    /// The mount that may connect.
    pub expect: armento_link::Badge,
    /// The local user whose rights it has.
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub exports: Vec<FilesExport>,
}

/// … and to a new mount process's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MfsStart {
    pub node: NodeName,
    /// Only take away what an earlier mount process left at the mount point, and end.
    pub clear: bool,
    /// A node that does not answer for so long is lost, milliseconds.
    pub deadline_ms: u64,
}

/// Their answer on standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum MfsUp {
    /// `port`: where a file server listens.
    Up {
        port: u16,
    },
    Unable {
        why: String,
    },
}

/// One stream of the mount: to one node, for one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MfsStream {
    pub node: NodeName,
    pub uid: u32,
    pub connected: bool,
    pub calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub open_files: u64,
    pub reconnects: u64,
    pub errors: u64,
    /// What was forgotten because the other node changed it.
    pub invalidations: u64,
    /// Of the calls that went over the network, microseconds.
    pub p50_us: u64,
    pub p99_us: u64,
}

/// A file server of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MfsServer {
    /// The node with the mount.
    pub node: NodeName,
    pub uid: u32,
    pub pid: Pid,
}

/// What `armento mfs stat` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MfsInfo {
    pub node: NodeName,
    /// It is switched on here.
    pub on: bool,
    pub point: PathBuf,
    pub mounted: bool,
    /// Why it is not mounted; empty if it is, or is not to be.
    pub why: String,
    /// Of the asking user; of all for root.
    pub streams: Vec<MfsStream>,
    pub servers: Vec<MfsServer>,
    pub exports: Vec<FilesExport>,
}
