//! What is written down of a host, and where.

use crate::process::started;
use crate::state_dir::StateDir;
use armento_model::{NodeName, TreeId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A tree at its home.
pub type Key = (NodeName, TreeId);

/// What is written down of a host, so that a new daemon finds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub home: NodeName,
    pub tree: TreeId,
    pub uid: u32,
    pub guest_uid: u32,
    pub pid: i32,
    /// Start time of the process (`/proc/PID/stat`), so that a reused pid is not taken for it.
    pub started: u64,
    /// With port 0 until it listens.
    pub addr: SocketAddr,
    pub plain: bool,
}

impl Record {
    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// The same process.
    pub fn is(&self, other: &Record) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

/// Where records and logs are.
pub fn records(state: &StateDir) -> PathBuf {
    state.path().join("hosts")
}

pub fn stem(home: &NodeName, tree: TreeId) -> String {
    format!("{home}-{tree}")
}

/// Where it is written down, below the state directory.
pub fn file_of(record: &Record) -> String {
    format!("hosts/{}.json", stem(&record.home, record.tree))
}
