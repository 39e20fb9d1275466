//! Messages about mounts that nodes share (DFSA).
//!
//! ```text
//! daemon ── Pass ─────────► keeper     the mounts that its node declares
//!        ── HostStart ────► host       … and those of the other node
//! keeper ── Report::Mounts ► daemon    whether both see the same there
//! daemon ── Answer::Dfsa ──► `armento dfsa`
//! ```

use armento_model::NodeName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A mount that a node declares as shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMount {
    /// Where it is mounted, here and on the other nodes.
    pub path: PathBuf,
    /// File systems that show another node's writes only after a close and an open will do.
    pub relaxed: bool,
}

/// What a host may open for its guests below the mounts of its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedStart {
    pub mounts: Vec<SharedMount>,
    /// The user whose rights decide, by number that of the home. `None`: this node has none.
    pub user: Option<SharedUser>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedUser {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// What a keeper found out about one mount and one other node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountVerdict {
    pub path: PathBuf,
    /// Files are opened there directly.
    pub direct: bool,
    /// Why not; empty if they are.
    pub why: String,
}

/// The shared mounts of a node, and what is known of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DfsaInfo {
    pub node: NodeName,
    pub mounts: Vec<DfsaMount>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DfsaMount {
    pub path: PathBuf,
    pub relaxed: bool,
    /// The kind of file system; empty if nothing is mounted there.
    pub kind: String,
    /// What is wrong with it here, and what to do; empty if nothing is.
    pub problem: String,
    /// What keepers of this node have found out about other nodes, the newest for each.
    pub nodes: Vec<DfsaNode>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DfsaNode {
    pub node: NodeName,
    pub direct: bool,
    pub why: String,
}
