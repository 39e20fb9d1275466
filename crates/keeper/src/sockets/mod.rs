//! Connections between two processes of the tree that are both away: their bytes go from host to host, and come back.
//!
//! It carries no bytes while a connection is direct, and never touches a connection to the world. Start at `offer.rs`, then `connection.rs`.

mod connection;
mod listed;
mod merge;
mod offer;
mod pair;
mod quiet;
mod sys;

pub(crate) use listed::busy_connections;
pub(crate) use offer::{news, run};
