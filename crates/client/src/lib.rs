//! Control sessions between a node's daemon and `armento` commands, keepers, hosts and screens.
//!
//! One JSON object a line over a Unix socket (peer credentials) and, between nodes, over TLS. Version N understands
//! N-1: [`version`] has the rule. Start at [`api`] for the messages, at [`Session`] to send them.
//!
//! This crate takes no decisions and never retries by itself: a caller that loses a session reconnects.

mod again;
pub mod api;
mod checkpoint;
mod connections;
mod dfsa;
pub mod hex;
mod history;
mod host;
mod kept;
mod line;
mod maintenance;
mod mfs;
mod orders;
mod own_engine;
mod pass;
mod processes;
mod session;
mod sys;
mod upgrade;
pub mod version;
mod web;
mod words;

pub use again::Again;
pub use line::{LineError, encode, read_line};
pub use own_engine::engine;
pub use session::{ANSWER, AskError, CHECKPOINT, MOVE, News, Reporter, SAFE, Session};
