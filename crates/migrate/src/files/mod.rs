//! Files behind the mappings of a process: those that the target lacks are sent; those with the same content are not.
//!
//! It never opens a file: the caller has it open. Start at `transfer.rs`, then `content_match.rs`.

mod content_match;
mod transfer;

pub use content_match::{Like, SIZES, read_through};
