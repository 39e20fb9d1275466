//! The thread that a process leaves at home: it makes the calls of its body and keeps its pid, files and signals.
//!
//! A deputy never decides: it is given work, does it and tells the body's host. Start at `thread.rs`, then `wait_loop.rs`.

mod common;
mod host_link;
mod limits;
mod posts;
mod readahead;
mod region_setup;
mod thread;
mod traffic;
mod wait_loop;
mod work;

pub(crate) use common::{Common, Limits};
pub(crate) use host_link::{Connection, Dialled, EarlyConnection, HostLink, Message, link_lost};
pub(crate) use limits::tell_limits;
pub(crate) use posts::Admitted;
pub(crate) use readahead::{ReadAhead, ReadAheads, STREAMS_MAX, end_wanted};
pub(crate) use region_setup::{
    grow_region, has_slot, make_uffd, map_region, map_slot, slots_for, unmap_region,
};
pub(crate) use thread::{Deputy, Waiter};
pub(crate) use traffic::Traffic;
pub(crate) use work::{AGAIN, Work, unmade_result};
