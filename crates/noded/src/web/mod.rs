//! The dashboard: its server, a process without rights, and what browsers ask through it.
//!
//! The daemon answers no browser itself. Start at `server.rs`; `sign_in.rs` says who may come in, `act.rs` what they may do
//! with processes of any home.

mod act;
mod certificate;
mod server;
mod sign_in;

pub use act::{act, act_for};
pub use server::supervise;
pub use sign_in::{end, sign_in, sign_out, token};
