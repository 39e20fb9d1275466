//! What is written down of the farm: our place in it, and its members.

use crate::config::Wire;
use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Who we are in which farm.
#[derive(Clone, Serialize, Deserialize)]
pub struct Farm {
    pub node: NodeName,
    /// Short name of the farm: the first 16 digits of its CA's hash.
    pub farm: String,
    pub wire: Wire,
    pub listen: SocketAddr,
    /// Where others reach us.
    pub addr: SocketAddr,
    /// Keys the datagrams between members.
    pub secret: String,
    /// Holds the CA key, so nodes can join here.
    pub admits: bool,
    /// Greater at each start.
    pub boot: u64,
    /// `addr` was found, not given: when this machine has it no more, another is looked for.
    #[serde(default)]
    pub found: bool,
    /// The name that was given for `listen`: what it means is asked again at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_name: Option<String>,
}

/// A member as last known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Member {
    pub name: NodeName,
    pub addr: SocketAddr,
    /// When it was admitted, seconds of Unix time; 0 when it was admitted elsewhere.
    #[serde(default)]
    pub admitted: u64,
    /// Its daemon has been seen up.
    #[serde(default, rename = "heard")]
    pub seen_up: bool,
    /// The machine's hash (`joining/machine_id.rs`); only where it was admitted, and of nodes that sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}
