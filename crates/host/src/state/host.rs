//! The host as its other threads have it: what all share, and the way to the tracer thread.

use super::guests::GuestTable;
use super::shared::Shared;
use armento_tracee::tracer_thread::TracerThread;
use std::ops::Deref;
use std::sync::Arc;

/// A job for the tracer thread gets the [`GuestTable`], which has the shared part but no way to queue a job: the tracer
/// thread never waits for itself.
pub struct Host {
    pub shared: Arc<Shared>,
    pub tracer: TracerThread<GuestTable>,
}

impl Deref for Host {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
