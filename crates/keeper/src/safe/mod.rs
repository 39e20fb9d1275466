//! Processes that go on when the node of their body is lost (`armento run --safe`).
//!
//! Home keeps a checkpoint of the body (`checkpoint.rs`), and a record of each call that it made for it since
//! (`keeper/src/record.rs`). When the node is lost, the body is built from the checkpoint on another node, or on this one
//! (`recover.rs`), runs again, and its calls are compared with the record (`keeper/src/calls/replay.rs`). It never decides
//! that a node is lost (`keeper/src/hosts/lost.rs` does), and never guesses: a body that does anything else than before
//! ends, with the reason.

mod checkpoint;
mod rebuild;
mod recover;
mod take;
mod together;

pub(crate) use checkpoint::{make_checkpoints, watch_checkpoints};
pub(crate) use rebuild::send_kept;
pub(crate) use recover::{build, build_again, choose, watch_recovered, watch_replays};
pub(crate) use take::{Ordered, go_on, order_copy};
