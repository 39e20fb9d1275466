//! The right of this home to run a tree of which another node keeps a checkpoint.
//!
//! Each answer of that node is a lease, counted from before it was asked. Time is CLOCK_BOOTTIME, which goes on while this
//! machine is suspended (clock_gettime(2)). Where nothing is kept, no lease is needed.

use crate::sync::lock;
use armento_client::api::LEASE;
use armento_model::NodeName;
use armento_tracee::sys;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::time::Duration;

/// The tree is stopped so long before its lease ends: to stop a large one takes time.
const MARGIN: Duration = Duration::from_secs(2);

/// What the tree may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Run,
    /// That node has not answered for too long.
    Stop(NodeName),
    /// It was recovered there.
    End(NodeName),
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct LeaseState {
    at: Option<NodeName>,
    /// When the lease ends, ns; `None`: nothing is kept.
    until: Option<u64>,
    taken: bool,
    /// When the checkpoint that is kept was begun, ns.
    made: Option<u64>,
}

#[derive(Default)]
pub struct Lease(Mutex<LeaseState>);

impl Lease {
    pub fn all(&self) -> LeaseState {
        lock(&self.0).clone()
    }

    /// As another process image had it.
    pub fn take_over(&self, all: LeaseState) {
        *lock(&self.0) = all;
    }

    /// Now, for `granted` and `made`. A clock that cannot be read never runs: its lease ends at once.
    pub fn now() -> u64 {
        sys::clock_ns(libc::CLOCK_BOOTTIME).unwrap_or(u64::MAX)
    }

    /// Where the checkpoint is kept.
    pub fn at(&self) -> Option<NodeName> {
        lock(&self.0).at.clone()
    }

    /// `at` has answered what was asked at `asked`.
    pub fn granted(&self, at: NodeName, asked: u64) {
        let mut it = lock(&self.0);
        let until = asked.saturating_add(LEASE.as_nanos() as u64);
        it.until = Some(it.until.unwrap_or(0).max(until));
        it.at = Some(at);
    }

    /// It keeps a checkpoint that was begun at `begun`.
    pub fn made(&self, begun: u64) {
        lock(&self.0).made = Some(begun);
    }

    /// Nothing is kept anywhere.
    pub fn void(&self) {
        let mut it = lock(&self.0);
        if !it.taken {
            *it = LeaseState::default();
        }
    }

    /// The tree was recovered there.
    pub fn taken(&self) {
        lock(&self.0).taken = true;
    }

    pub fn verdict(&self, now: u64) -> Verdict {
        let it = lock(&self.0);
        let margin = MARGIN.as_nanos() as u64;
        match (&it.at, it.until) {
            (Some(at), _) if it.taken => Verdict::End(at.clone()),
            (Some(at), Some(until)) if now.saturating_add(margin) >= until => {
                Verdict::Stop(at.clone())
            }
            _ => Verdict::Run,
        }
    }

    /// Where a checkpoint is kept, and how old it is.
    pub fn kept(&self, now: u64) -> Option<(NodeName, Duration)> {
        let it = lock(&self.0);
        let age = now.saturating_sub(it.made?);
        Some((it.at.clone()?, Duration::from_nanos(age)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn tree_runs_only_within_its_lease() {
        let n2: NodeName = "n2".parse().expect("name");
        let lease = Lease::default();
        assert_eq!(lease.verdict(1000 * S), Verdict::Run, "nothing is kept");
        lease.granted(n2.clone(), 100 * S);
        assert_eq!(lease.verdict(107 * S), Verdict::Run);
        assert_eq!(lease.verdict(108 * S), Verdict::Stop(n2.clone()));
        lease.granted(n2.clone(), 106 * S);
        // An answer that comes late does not shorten it.
        lease.granted(n2.clone(), 103 * S);
        assert_eq!(lease.verdict(113 * S), Verdict::Run);
        assert_eq!(lease.verdict(u64::MAX), Verdict::Stop(n2.clone()));
        lease.void();
        assert_eq!(lease.verdict(200 * S), Verdict::Run);
        lease.granted(n2.clone(), 200 * S);
        lease.taken();
        lease.void();
        lease.granted(n2.clone(), 201 * S);
        assert_eq!(lease.verdict(202 * S), Verdict::End(n2));
    }
}
