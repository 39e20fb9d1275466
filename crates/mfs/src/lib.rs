//! MFS: the files of every node, on every node, below one mount point.
//!
//! `/mfs/NODE/path` is `/path` of that node. A mount is one process for a node ([`Mount`]): it speaks FUSE with the
//! kernel, and a stream with one file server for each node and user ([`Server`]), which has that user's rights there and
//! no others.
//!
//! This crate finds no node and starts no process: the daemon does ([`Farm`]). Start at [`Mount`] for one side and at [`Server`] for the
//! other; `protocol` is between them.

mod client;
mod farm;
mod fuse;
pub mod protocol;
mod server;
mod sync;
mod sys;

pub use client::{Mount, NodeStats, Options, Stats};
pub use farm::{Farm, FarmNode, Places, Shown, Unreachable};
pub use server::{Export, Exports, Server};

#[derive(Debug, thiserror::Error)]
pub enum MfsError {
    /// Nothing is mounted, and nothing was changed.
    #[error("{what}: {cause}")]
    Mount { what: String, cause: std::io::Error },
    /// An export cannot be used; the server did not start.
    #[error("export {path}: {why}")]
    Export { path: String, why: String },
    /// The stream is closed; files that it had open stay open for a while, for one that takes the session up again.
    #[error("file stream: {0}")]
    Stream(#[from] protocol::ProtocolError),
    /// The peer does not keep to the protocol; its stream is closed.
    #[error("file stream: {0}")]
    Peer(String),
    /// A system call failed that needs nothing but memory and descriptors.
    #[error("{0}")]
    System(#[from] std::io::Error),
}
