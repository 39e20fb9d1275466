//! Control of a farm from a machine that is in none: over TLS to the daemon's port, with a token of one of its users.
//!
//! ```text
//! other machine                         daemon
//!   sign-in, token            ──TLS──►  as a browser signs in (`state/web.rs`): a secret, for some days
//!   control, secret           ──TLS──►  a control session of its own socket, which acts for that user
//!   lines of the control API  ◄─────►   passed on, both ways
//! ```
//! The other machine has no certificate; it checks the daemon's against the hash of the farm's certificate in the token. It
//! can ask what [`armento_client::api::Ask::is_for_pages`] allows, with the rights of that user, and nothing else.

mod client;
mod server;

pub use client::{Open, SignedIn, open, sign_in, sign_out};
pub use server::{PassOn, invite, sign_in_remote, sign_out_remote};
