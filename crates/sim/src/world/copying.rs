//! How far the copy of a process is.

use armento_balance::Counts;

/// A copy is made in so many parts: computed, then read and written. `armento lab play` divides it alike.
pub(super) const PARTS: u64 = 30;
/// What a program copies.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    pub bytes: u64,
    /// Time that it waits for the storage, in all, microseconds.
    pub wait_us: u64,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Parts to come after the present one.
    pub parts_left: u64,
    /// It waits for the storage or the network.
    pub waits: bool,
    pub calls: Counts,
    /// Time in which it was runnable, up to `at_us`, as last reported, microseconds.
    pub runnable_us: u64,
    pub at_us: u64,
    pub told_us: (u64, u64),
    pub busy_percent: u8,
}

impl Progress {
    pub fn new(copies: bool) -> Progress {
        Progress {
            parts_left: if copies { PARTS - 1 } else { 0 },
            busy_percent: 100,
            ..Progress::default()
        }
    }
}
