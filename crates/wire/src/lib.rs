//! Messages between a keeper and its hosts, to bytes and back. No I/O but on the reader or writer given.
//!
//! ```text
//! frame = length u32 (of what follows) · kind u8 · body
//! ```
//! Calls and replies are laid out by hand because they are the hot path; the rest is postcard. The
//! bytes of pages follow what is said of them ([`pages`]). The version is settled in [`Hello`]; both sides must match.
//! The calls stream goes on over a new connection when one breaks: `session.rs`.

pub mod bulk;
pub mod call;
pub mod codec;
mod frame;
pub mod pages;
pub mod session;
pub mod talk;

pub use frame::{FRAME_MAX, WireError, read_frame, write_frame};
