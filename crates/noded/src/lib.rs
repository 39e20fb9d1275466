//! The daemon of a node: membership, load vector, decisions carried out, control API, admission.
//!
//! It holds no process hostage: keepers and hosts are processes of their own, report what they
//! have on their control sessions, and connect again when a daemon comes back. It is the only one
//! that reads the node's key. It never touches a program or a guest itself, but
//! for one call that Yama makes necessary (`work/yama.rs`).
//!
//! Its rooms, from the top to the bottom, are listed in `rooms.toml`; each imports those below it only. Start at
//! `daemon/` (what runs), `state/` (what is known), `policy/` (what is decided); `membership/` makes farms and joins them.

mod address;
mod announce;
mod clock;
mod config;
mod control;
mod daemon;
mod dfsa;
mod error;
mod file_servers;
mod gossip;
mod hosts;
mod joining;
mod keepers;
mod kept;
mod lease_holder;
mod line_sender;
mod membership;
mod mfs;
pub mod peer;
mod peer_server;
mod policy;
mod process;
pub mod remote;
pub mod revocation;
mod state;
mod state_dir;
mod sys;
mod systemd;
mod upgrade;
mod version;
mod web;
mod work;

pub use config::{Config, Wire};
pub use daemon::{Options, Running, is_waiting, run, run_service, start};
pub use error::{Candidate, FarmError};
pub use membership::{
    Enrolled, InitOptions, Invitation, JoinOptions, Planned, TOKEN_TTL, TOKEN_USES, boot_identity,
    forget_kept, init, invitations, join, leave_without_daemon, new_token, plan_init, plan_join,
    plan_leave, plan_token, takes_the_key, withdraw,
};
pub use systemd::{ready as notify_ready, stopping as notify_stopping};
pub use upgrade::{
    install as install_program, previous as previous_program, program_hash,
    rollback as rollback_program, versions_of as versions_of_program,
};
