//! Messages between a daemon and a host that it starts.
//!
//! ```text
//! daemon ── one line on stdin ──► host      HostStart
//! host   ── one line on stdout ─► daemon    HostSaid
//! ```

use armento_model::{NodeName, Pid, Stay, TreeId};
use serde::{Deserialize, Serialize};

/// The line of JSON that a daemon writes to a new host's standard input. The host answers with one line [`HostUp`] on
/// its standard output, then closes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStart {
    pub node: NodeName,
    pub home: NodeName,
    pub tree: TreeId,
    /// The user at home.
    pub uid: u32,
    /// The user that the host becomes on this machine.
    pub guest_uid: u32,
    /// Address to listen on, port 0.
    pub listen: String,
    pub identity: armento_link::Identity,
    /// The keeper of this tree. Hosts of this tree and user on any node of the farm are admitted, too: a node can join
    /// while this host lives.
    pub expect: armento_link::Badge,
    /// Where copies of this user's files at home are shared with the user's other trees here.
    pub files: Option<std::path::PathBuf>,
    pub mem_max_kib: Option<u64>,
    /// Most processes and threads, where the host has a user of its own.
    #[serde(default)]
    pub procs_max: u64,
    /// A tree without messages from its home for this long is frozen, milliseconds.
    pub freeze_ms: u64,
    /// … and ended, milliseconds.
    pub dead_ms: u64,
    /// Mounts of this node where files of the home may be opened.
    #[serde(default)]
    pub dfsa: Option<crate::dfsa::SharedStart>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostUp {
    pub port: u16,
    pub host: Pid,
}

/// A host's first message: that it listens, or why no guest can live here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HostSaid {
    Up(HostUp),
    Unable { stay: Stay, detail: String },
}
