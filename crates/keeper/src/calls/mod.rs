//! What a host asks of home while its bodies run: calls, forks, mappings, files.
//!
//! It never waits for a deputy: a host whose stream is not read is given up with all its processes. Start at
//! `dispatch.rs`, which reads one connection of a host; `execute.rs` makes one call.

mod cmdline;
mod dispatch;
mod execute;
mod exit;
mod fork_and_map;
mod names;
mod proc_access;
mod readahead;
mod replay;
mod timer_settime;

pub(crate) use cmdline::argument_pages;
pub(crate) use dispatch::serve_host;
pub(crate) use execute::make_call;
pub(crate) use fork_and_map::{close_mapped_files, make_thread};
pub(crate) use names::{end_leases_of_attributes, end_wanted_leases};
pub(crate) use readahead::open_files;
