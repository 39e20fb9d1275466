//! Checkpoint files, and the part of a process that its home keeps: descriptors, pipes, directories, groups, limits.
//!
//! ```text
//! stopped processes ─ capture ─► Home ─┐                  ┌─► Home ─ assemble ─► processes, each at its exec
//! memory, threads ─ the engine ────────┴─ format ─► FILE ─┴─► image, pages ─ the engine ─► memory, threads
//! ```
//!
//! Memory and threads are opaque here: an image of bytes, and pages by address. This crate never traces a process, never
//! reads a process's memory, and speaks to no other node. Start at [`home`] for what is captured, at [`format`] for the
//! file, at [`assemble`] for the way back.

pub mod assemble;
pub mod format;
pub mod home;
