//! Control sessions: what `armento` commands, keepers, hosts and screens say to a node's daemon.
//!
//! One JSON object a line over a Unix socket (peer credentials) and, between nodes, over TLS.
//! Version N speaks with N-1: [`version`] has the rule. Start at [`api`] for the words, at [`Session`] to say them.
//!
//! This crate decides nothing and never retries by itself: who loses a session connects again.

mod again;
pub mod api;
mod line;
mod session;
mod sys;
pub mod version;
mod words;

pub use again::Again;
pub use line::{LineError, encode, read_line};
pub use session::{ANSWER, AskError, MOVE, Reporter, Session};
