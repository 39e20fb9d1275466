//! Messages between a keeper and its hosts, and their encoding. I/O only on the given reader or writer.
//!
//! ```text
//! frame = length u32 (of what follows) · kind u8 · body
//! ```
//! Calls and replies have a hand-written encoding because they are the hot path; the rest is postcard. The bytes of
//! pages follow their description ([`pages`]). The version is checked in [`Hello`]; both sides must match. The calls
//! stream continues over a new connection when one breaks: `session.rs`.

pub mod bulk;
pub mod call;
pub mod codec;
mod frame;
pub mod pages;
pub mod session;
pub mod sockets;
pub mod talk;

pub use frame::{FRAME_MAX, WireError, read_frame, write_frame};
