//! Checkpoint files: processes are written into a file (`armento checkpoint`), and begin again from one (`armento restart`).
//!
//! A process stands still only while the rest of its memory and what the kernel has of it are read (`save.rs`); the file is
//! written while it runs on. At a restart each program is started as usual, and at its exec it makes room for the body that
//! is in the file (`restart.rs`). The file and what the kernel has of a process are `armento_checkpoint`'s. Of a process'
//! state it holds only what that and a move hold: what neither carries is a reason not to write the file.

mod attributes;
mod body;
mod copies;
mod mapped;
mod memory;
mod own_calls;
mod refuse;
mod restart;
mod rights;
mod save;
mod timers;
mod write;

pub(crate) use restart::begin_from_file;
pub(crate) use save::{save_file, with_descendants, write_file};
