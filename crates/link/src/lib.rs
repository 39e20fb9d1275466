//! Authenticated streams between nodes.
//!
//! [`dial`] and [`Listener`] give a [`Duplex`] that is either TLS 1.3 with both sides' certificates
//! checked, or plain TCP for links that are isolated. Blocking; for data threads. A duplex splits
//! into a [`Reader`] and a [`Writer`] that two threads may use at once.

use armento_model::{NodeName, TreeId};
use serde::{Deserialize, Serialize};

/// Who a certificate speaks for. Peers check all three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Badge {
    pub node: NodeName,
    /// `None` for a daemon; for keepers and hosts their tree and the user at home.
    pub tree: Option<(TreeId, u32)>,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Daemon,
    Keeper,
    Host,
}

/// Keys for one side of a link, or the decision to do without.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "wire", rename_all = "kebab-case")]
pub enum Identity {
    Plain,
    Tls {
        /// The farm's CA certificate.
        ca_pem: String,
        /// Leaf first, then the node's intermediate certificate.
        chain_pem: String,
        key_pem: String,
    },
}

mod plain;
pub use plain::{Duplex, LinkError, Listener, Reader, Writer, dial};
