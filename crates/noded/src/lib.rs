//! The daemon of a node: membership, load vector, decisions carried out, control API, admission.
//!
//! It holds no process hostage: keepers and hosts are processes of their own, report what they
//! have on their control sessions, and connect again when a daemon comes back. It is the only one
//! that reads the node's key. It never touches a program or a guest itself, but
//! for one call that Yama makes necessary (`yama/mod.rs`).
//!
//! Start at `daemon.rs` (what runs), `core.rs` (what is known), `act.rs` (what is decided);
//! `enrol.rs` makes farms and joins them, with `address/` and `joining/`.

mod act;
mod address;
mod asks;
mod awaited;
mod boot;
mod clocks;
mod config;
mod control;
mod core;
mod daemon;
pub mod datagram;
mod departures;
mod enforce;
mod enrol;
mod error;
mod gossip;
mod guest_users;
mod hosts;
mod joining;
mod keepers;
mod leave;
mod log;
mod members;
mod moves;
pub mod news;
pub mod peer;
mod remove;
mod service;
mod state;
mod switches;
mod sys;
mod tokens;
mod trust;
mod upkeep;
mod yama;

pub use address::Candidate;
pub use config::{Config, Wire};
pub use daemon::{Options, Running, run, run_service, start};
pub use enrol::{Enrolled, InitOptions, JoinOptions, TOKEN_TTL, TOKEN_USES, init, join, new_token};
pub use error::FarmError;
pub use leave::{leave_without_daemon, takes_the_key};
pub use service::is_waiting;
