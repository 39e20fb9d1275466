//! What the deputies of one process share with the tracer thread.

use crate::cpu_time::CpuAccounts;
use crate::record::Record;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// Resource, soft and hard limit.
pub type Limits = Vec<(u32, u64, u64)>;

/// What the deputies of one process share with the tracer thread.
#[derive(Clone)]
pub struct Common {
    /// Calls from the body are turned back: a move is under way.
    pub breaking: Arc<AtomicBool>,
    /// It is on its way home: its pages come by themselves.
    pub coming_home: Arc<AtomicBool>,
    pub calls: Arc<AtomicU64>,
    /// Bytes of these calls from the body, and to it.
    pub bytes_sent: Arc<AtomicU64>,
    pub bytes_received: Arc<AtomicU64>,
    /// Signals that it reads from descriptors. KERNEL: signalfd(2).
    pub signalfds: Arc<AtomicU64>,
    /// Limits that its host knows.
    pub limits: Arc<Mutex<Limits>>,
    /// Bytes of the region that they have in their memory at least.
    pub mapped: Arc<Mutex<u64>>,
    /// Another process has the same table of descriptors or working directory. KERNEL: clone(2), CLONE_FILES, CLONE_FS.
    pub shares_files: Arc<AtomicBool>,
    /// What was done since its last checkpoint; present for a process that is to be safe.
    pub record: Option<Arc<Record>>,
    /// The tree's.
    pub cpu: Arc<CpuAccounts>,
}
