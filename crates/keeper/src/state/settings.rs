//! What `armento run` was asked for a tree, and which tree and node it is. Written down, it outlasts the keeper's program.

use super::safe::Safety;
use crate::cpu_features::Portable;
use armento_client::api::KeeperHello;
use armento_model::{NodeName, Pid, TreeId};
use serde::{Deserialize, Serialize};

/// How a tree is moved about, for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storm {
    /// To a random node every so many milliseconds.
    Every(u64),
    /// At every forwarded call, and inside every one that blocks.
    Call,
    /// Every so many milliseconds the body of each process is lost that can go on; others go to a random node.
    Loss(u64),
    /// As `Every`, and so often the keeper begins its program anew.
    Handover(u64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub node: NodeName,
    pub tree: TreeId,
    pub root: Pid,
    pub pinned: Option<NodeName>,
    pub stay: bool,
    /// Forks and execs at home are followed.
    pub spread: bool,
    /// Moved about for a test, with this seed: neither the daemon nor the user decides.
    pub storm: Option<(Storm, u64)>,
    /// Its processes go on when a node is lost.
    pub safe: Option<Safety>,
    /// `--forward-files`.
    pub forward_files: bool,
    /// Not `--no-direct-sockets`.
    #[serde(default)]
    pub direct_sockets: bool,
    /// `direct_sockets = false` in the settings of its home, when it was started.
    #[serde(default)]
    pub home_forbids_direct: bool,
    pub portable: Option<Portable>,
    pub hello: KeeperHello,
}

impl Settings {
    /// Whether hosts answer no call on files and names by themselves: what they answer is in no record, but for reads that they
    /// tell (`calls/readahead.rs`).
    pub fn forwards_files(&self) -> bool {
        self.forward_files || self.safe.is_some()
    }

    /// Why no connection between its processes goes directly between their hosts; `None`: they may.
    pub fn never_direct(&self) -> Option<&'static str> {
        match self {
            // What goes there is in no record.
            s if s.safe.is_some() => Some("the program is kept safe (--safe)"),
            s if s.forward_files => Some("the program was started with --forward-files"),
            s if !s.direct_sockets => Some("the program was started with --no-direct-sockets"),
            s if s.home_forbids_direct => Some("its home has the setting direct_sockets = false"),
            _ => None,
        }
    }

    /// Keeps the tree safe so from now on.
    pub fn set_safe(&mut self, safe: Option<Safety>, by_user: bool) {
        self.safe = safe;
        self.hello.safe_chosen = by_user;
        self.hello.safe = safe.map(Safety::wish);
    }
}
