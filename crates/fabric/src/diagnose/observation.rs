//! What one node saw of itself and of its peers.

use crate::addr::Mac;
use crate::observe::Observed;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Version of [`Observation`] as JSON.
pub const OBSERVATION: &str = "armento.fabric.observation/1";

/// Everything that one node's observer knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub schema: String,
    pub node: String,
    pub network: Observed,
    #[serde(default)]
    pub extras: Vec<LinkExtra>,
    #[serde(default)]
    pub paths: Vec<PathSeen>,
    #[serde(default)]
    pub heard: Vec<Heard>,
    #[serde(default)]
    pub arp: Vec<ArpAnswers>,
    /// Packets that the kernel dropped for their reverse path while the doctor looked (IPReversePathFilter).
    #[serde(default)]
    pub rp_drops: u64,
    /// Names of links that changed their carrier while the doctor looked, with how often.
    #[serde(default)]
    pub flaps: Vec<(String, u64)>,
    /// DHCP servers that answered, by link.
    #[serde(default)]
    pub dhcp: Vec<(String, IpAddr)>,
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// What could not be looked at, and why.
    #[serde(default)]
    pub gaps: Vec<String>,
}

/// What `ethtool -k` says of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkExtra {
    pub link: String,
    pub lro: bool,
}

/// The way to one peer in one net.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSeen {
    pub peer: String,
    pub net: String,
    pub address: String,
    /// The link by which packets leave (`ip route get`).
    pub link: Option<String>,
    /// Small echo requests that were answered, of how many.
    pub small: (u32, u32),
    /// Echo requests of the net's whole size that were answered, of how many.
    pub full: (u32, u32),
    pub mtu: Option<MtuProbe>,
}

/// How large a packet arrives at the peer, one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuProbe {
    /// Bytes of IP: what the net should carry.
    pub wanted: u32,
    /// The largest that arrived.
    pub passed: u32,
    /// The own link refused the next one (EMSGSIZE).
    pub local: bool,
}

/// A frame of another observer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The own link.
    pub link: String,
    pub node: String,
    /// The link on which it was sent.
    pub from: String,
    /// Smallest difference between the own clock at arrival and the sender's at departure, microseconds.
    pub lag_us: i64,
}

/// Who answers for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArpAnswers {
    pub link: String,
    pub address: String,
    /// The node that has it by the inventory.
    pub node: String,
    pub macs: Vec<Mac>,
}

/// A load test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    pub peer: String,
    pub net: String,
    pub bytes: u64,
    /// Blocks whose checksum was wrong.
    pub wrong: u64,
    /// Connections that ended early, with the kernel's word.
    pub broken: Vec<String>,
}
