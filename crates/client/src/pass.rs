//! The way to a host, as a daemon tells its keeper.

use crate::dfsa::SharedMount;
use armento_model::NodeName;
use serde::{Deserialize, Serialize};

/// Access to a host that was admitted for one tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pass {
    pub node: NodeName,
    /// `ip:port` where the host of this tree listens.
    pub addr: String,
    /// Our short-lived identity for this link, and the badge to expect there.
    pub identity: armento_link::Identity,
    pub expect: armento_link::Badge,
    /// This node's settings of these names.
    #[serde(default = "default_freeze_ms")]
    pub freeze_ms: u64,
    #[serde(default = "default_dead_ms")]
    pub dead_ms: u64,
    /// The mounts that this node shares with others.
    #[serde(default)]
    pub dfsa: Vec<SharedMount>,
    /// The engine version that both sides use; 0 from a daemon that knows only its own: ours.
    #[serde(default)]
    pub engine: u32,
}

impl Pass {
    pub fn common_engine(&self) -> u32 {
        match self.engine {
            0 => crate::own_engine::engine(),
            engine => engine,
        }
    }
}

/// Hosts freeze a tree after 10 s without its home; home declares a host dead at 30 s.
pub const fn default_freeze_ms() -> u64 {
    10_000
}

pub const fn default_dead_ms() -> u64 {
    30_000
}
