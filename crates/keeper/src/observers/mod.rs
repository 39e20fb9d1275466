//! How processes of a tree observe each other. An observed process is at home, where its observer sees it.
//!
//! It never moves a process: it refuses a move, or asks for one home. Start at `proc_files.rs`.

mod cpu_sleepers;
mod descriptors;
mod proc_files;

pub(crate) use cpu_sleepers::{not_awaited, watch_cpu_sleepers};
pub(crate) use descriptors::{not_counted, untouched, watch_counters, watched_inodes};
pub(crate) use proc_files::{is_stopped, looks_on_purpose, not_observed};
