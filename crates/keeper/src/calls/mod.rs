mod cmdline;
mod dispatch;
mod execute;
mod exit;
mod fork_and_map;
mod proc_access;
mod readahead;
mod timer_settime;

pub(crate) use cmdline::argument_pages;
pub(crate) use dispatch::serve_host;
pub(crate) use execute::make_call;
pub(crate) use fork_and_map::close_mapped_files;
pub(crate) use readahead::{open_files, watch_readahead};
