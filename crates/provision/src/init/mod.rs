//! Process 1 of a node without a disk, in the initramfs: it finds the card, reaches the boot server, mounts the root, writes
//! the node's own files, and becomes systemd. What fails is told to the boot server and shown on the console; then the
//! machine starts again.
//!
//! It touches no card but the one that the machine booted from, and keeps nothing of the farm but a token for one use. Start
//! at [`main`]; `run.rs` has the steps in their order, and each of them is one file.

mod calls;
mod card;
mod drivers;
mod files;
mod http;
mod order;
mod relay;
mod root;
mod run;
mod switch;
mod sys;

pub use files::{NODE_FILE, NodeFile};
pub use http::{
    Asked, ImageSeen, Joining, LONG_S, ServerStatus, Servers, Told, server_status, status,
};
pub use order::{Order, RootKind, ServerAddress, command_line, read_order};
pub use relay::{RELAY, relay_main};
pub use run::main;
