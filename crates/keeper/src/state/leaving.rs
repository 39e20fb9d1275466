//! A process on its way out: what the tracer thread keeps of it between two visits.

use crate::deputy::Limits;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::files::Names;
use armento_migrate::image::itimers::Itimers;
use armento_migrate::image::{ThreadState, mm};
use armento_migrate::stop_threads::StoppedThreads;
use armento_tracee::region::Region;
use armento_tracee::uffd::Uffd;
use std::sync::Arc;
use std::time::Instant;

/// A process on its way out, between two visits to the tracer thread.
pub struct Leaving {
    pub stopped: StoppedThreads,
    pub region: Arc<Region>,
    /// Whether the region is in its memory. Not while it runs: it could see it, and its children inherit it.
    pub mapped: bool,
    pub uffd: Option<Arc<Uffd>>,
    /// The files that it mapped when it was looked at first.
    pub names: Names,
    /// All of it that was seen then, where that stays true.
    pub still: Option<Survey>,
    pub states: Vec<ThreadState>,
    pub itimers: Itimers,
    pub numbers: mm::Mm,
    /// Signals it ignores, as a mask.
    pub ignored: u64,
    /// Signals it reads from descriptors, as a mask.
    pub signalfds: u64,
    pub limits: Limits,
    /// Since when it stands still.
    pub stands: Instant,
}
