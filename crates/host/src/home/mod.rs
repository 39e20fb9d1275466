//! What comes in from outside, and what is reported: the link home and its messages, connections of other hosts, the
//! daemon of this node.
//!
//! It carries nothing out itself: orders go to `moves`, `threads` and `calls`. Start at `connections.rs`, then
//! `messages.rs`.

mod connections;
mod daemon;
mod first_connection;
mod link;
mod messages;
mod pulse;

pub use connections::accept;
pub use daemon::report_to_daemon;
pub use first_connection::{FirstConnection, await_home};
pub use link::watch_link;
pub use messages::{read_messages, receive};
pub use pulse::pulse;
