//! Pairs of nodes that cannot reach each other, though home reaches both: direct links, a firewall between them.

use crate::sync::lock;
use armento_model::NodeName;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// So long a pair is not tried again: a trial may wait 10 s for an answer (`host/src/moves/connect.rs`).
const REMEMBERED: Duration = Duration::from_secs(600);
/// More are forgotten together: each is tried once more.
const PAIRS_MAX: usize = 4096;

#[derive(Default)]
pub struct NoPaths(Mutex<HashMap<(NodeName, NodeName), Instant>>);

impl NoPaths {
    pub fn note(&self, from: &NodeName, to: &NodeName) {
        let mut all = lock(&self.0);
        if all.len() >= PAIRS_MAX {
            all.clear();
        }
        all.insert((from.clone(), to.clone()), Instant::now());
    }

    /// Whether a move between them failed for that reason a short time ago.
    pub fn has(&self, from: &NodeName, to: &NodeName) -> bool {
        let pair = (from.clone(), to.clone());
        let mut all = lock(&self.0);
        let known = all.get(&pair).is_some_and(|at| at.elapsed() < REMEMBERED);
        if !known {
            all.remove(&pair);
        }
        known
    }
}
