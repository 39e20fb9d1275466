//! The event loop of the tracer thread: what it does with each report of a traced thread.
//!
//! From: `start.rs`. Next: `threads/stops.rs`.

use crate::state::GuestTable;
use crate::threads;
use armento_model::Tid;
use armento_tracee::trace::Status;
use armento_tracee::tracer_thread::World;
use std::time::Duration;

/// A safety net only: nothing changes but by a report or a job.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl World for GuestTable {
    fn report(&mut self, tid: Tid, status: Status) {
        threads::report(self, tid, status);
    }

    /// The loop ends with the host.
    fn turn(&mut self) -> bool {
        true
    }

    fn pause(&self) -> Duration {
        PAUSE_MAX
    }
}
