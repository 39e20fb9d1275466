//! Authenticated streams between nodes, and their keys.
//!
//! [`dial`] and [`Listener`] return a [`Duplex`] that is either TLS 1.3 with both sides' certificates checked, or plain
//! TCP for isolated networks. Blocking; for data threads. A duplex splits into a [`Reader`] and a [`Writer`] that two
//! threads may use at once.
//!
//! Trust is a chain of three: the farm's CA signs one intermediate certificate for each node, limited by a name
//! constraint to `<node>.armento`; the node signs short-lived certificates with a single name, a [`Badge`]. So a node
//! can authenticate its own keepers and hosts and no others.
//!
//! This crate never reads or writes files and keeps keys only in memory. Start at [`Badge`], then `stream.rs` for the
//! bytes and `keys.rs` for the chain.

use armento_model::{NodeName, TreeId};
use serde::{Deserialize, Serialize};

/// The identity in a certificate. Peers check all three parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Badge {
    pub node: NodeName,
    /// `None` for a daemon; for keepers and hosts their tree and the user at home; for streams of files tree 0 and the user
    /// at the node with the mount; `None` for boot servers.
    pub tree: Option<(TreeId, u32)>,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Daemon,
    Keeper,
    Host,
    /// Either end of a stream of files (`crates/mfs`): the mount for a user, or the user's file server.
    Files,
    /// Either end of a stream between boot servers (`crates/provision/src/follow`).
    Boot,
}

/// Keys for one side of a link, or the decision to use none.
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
        /// The farm's list of removed nodes, once there is one: their certificates are refused.
        #[serde(default)]
        crl_pem: Option<String>,
    },
}

impl Identity {
    /// The same keys, with the list of removed nodes.
    pub fn with_removed(mut self, crl: Option<String>) -> Identity {
        if let Identity::Tls { crl_pem, .. } = &mut self {
            *crl_pem = crl;
        }
        self
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nothing was exchanged beyond the handshake, or the stream is gone.
    #[error("link: {0}")]
    Io(#[from] std::io::Error),
    /// The peer could not authenticate, or is not the expected one, or refused us. The connection is closed.
    #[error("peer was not let in: {0}")]
    Refused(String),
    /// The peer's certificate is not valid at the time of this machine's clock. The connection is closed.
    #[error("peer was not let in: {0}")]
    Clock(String),
    /// Our own keys or certificates cannot be used. No connection was attempted.
    #[error("own keys cannot be used: {0}")]
    Keys(String),
    /// The listener was closed by its [`Closer`].
    #[error("the listener was closed")]
    Closed,
}

mod badge;
mod clock;
mod config;
mod conn;
mod dial;
mod handshake;
mod keys;
mod listen;
mod removed;
pub mod sockets;
mod stream;
mod sys;
mod token;
mod web_keys;

pub use dial::{dial, dial_unknown};
pub use keys::{FarmKeys, NodeKeys, Request};
pub use listen::{Closer, Listener};
pub use removed::{serial_of, signed_by};
pub use stream::{Duplex, Reader, Writer};
pub use token::{BadToken, Token, ca_hash, random_hex};
pub use web_keys::{fingerprint, web_keys};
