//! An NFSv3 server over TCP on one port, without rpcbind, that shows each node its own view of a shared root.
//!
//! A caller is known by its address: [`Resolver`] says which node that is, never reverse DNS. Names are looked up by the
//! tags of ClusterNFS ([`armento_provision::view`]). Programs on the port: MOUNT 3, NFS 3 with its 22 procedures, and
//! NFSACL 3, without which an overlay above the root refuses to run programs of other users.
//!
//! This crate reads no settings, finds no node and writes nothing outside the exported directories. Before: root, since
//! file handles are opened by number and callers' identities are taken on. Start at [`Server`].
//!
//! ```text
//!   accept ─► one thread a connection: record ─► call ─► program ─► reply
//!                                       rpc      rpc    programs    rpc
//!                                                       │
//!                                view (which file a name is) ─► tree (handles, open files, identities)
//! ```

mod clients;
mod export;
mod programs;
mod rpc;
mod server;
mod tree;
mod view;

pub use clients::ClientStats;
pub use export::{Access, Caller, Export, Exports, Identity, Key, Place, Ports, Resolver, Squash};
pub use server::{Running, Server, replies};

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum NfsError {
    /// Nothing listens.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        address: std::net::SocketAddr,
        cause: std::io::Error,
    },
    /// Nothing listens; the exports before, if any, are still served.
    #[error("export {path}: {why}")]
    Export { path: String, why: String },
    /// A system call failed that needs nothing but memory, descriptors and threads.
    #[error("{0}")]
    System(#[from] std::io::Error),
}
