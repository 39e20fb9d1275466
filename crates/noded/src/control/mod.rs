//! The control socket: sessions of commands, keepers and hosts on this node, and the answers that they get.
//!
//! It answers, and hands what is to be done to the rooms below. Start at `socket.rs`, then `requests.rs`.

mod client;
mod hello;
mod history;
mod processes;
mod requests;
mod session;
mod socket;

pub use socket::{bind, serve};
