//! The event loop of the tracer thread.
//!
//! It sends stops, exits and execs to the room that handles them, and does the housekeeping between them. It never waits
//! for the daemon or a host. Start at `dispatch.rs`.

mod dispatch;
mod exec;
mod housekeeping;
mod report;

pub(crate) use housekeeping::watch_leases;
pub(crate) use report::report_processes;
