//! Signals that the tracer thread keeps for the whole tree.
//!
//! From: `keeper/src/signals/route.rs`, `keeper/src/signals/flood.rs`.

use super::flood::{BlockedSignals, Flood};
use armento_model::Tid;
use armento_tracee::sys::SigInfo;
use std::collections::HashMap;

#[derive(Default)]
pub struct TreeSignals {
    /// Signals for children of deputies that are not known yet.
    pub unclaimed: Vec<(Tid, SigInfo)>,
    /// Signals wait for a host that is behind.
    pub backlog: bool,
    /// Deputies that block signals for a moment.
    pub blocked: HashMap<Tid, BlockedSignals>,
    /// Signals of the whole tree just now.
    pub flood: Flood,
}

impl TreeSignals {
    /// Whether something is to be done soon that no event tells of.
    pub fn wait(&self) -> bool {
        self.backlog || !self.blocked.is_empty()
    }
}
