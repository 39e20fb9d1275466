//! What a daemon has and knows: `Node`, and under its lock `Core`.
//!
//! It holds state and answers questions about it; rooms above decide and act. Start at `node.rs`, then `core.rs`.

mod asker;
mod core;
mod credentials;
mod kept;
mod member;
mod members;
mod mfs;
mod node;
mod node_list;
mod owner;
mod peers;
mod revoked;
mod switches;
mod trust;
mod upload;
mod view;
mod web;

pub use asker::{Asker, may};
pub use core::Core;
pub use kept::{Arriving, Entry, Kept, Meta, id_of};
pub use member::{Life, Standing, State};
pub use mfs::kill_server;
pub use node::Node;
pub use peers::{call, no_such_node};
pub use switches::{Drain, command};
pub use trust::{Changes, Trust};
pub use upload::Upload;
pub use web::{SESSION_S, SESSION_S_MAX, Served, Sha256, TOKEN_S, USES_MAX, sha256};
