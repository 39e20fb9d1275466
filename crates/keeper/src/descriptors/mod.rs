//! What is known of a descriptor of a program: whether its file is a regular one of this machine, and whether writes to it
//! may be answered before they are made.
//!
//! It changes nothing, neither descriptors nor files. Start at `facts.rs`.

mod facts;
mod quota;

pub(crate) use facts::{facts, is_local};
