//! Which descriptors of a process have connections that go directly to another host.

use crate::sync::lock;
use armento_wire::sockets::EndId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ends of one process; further connections go over home.
const ENDS_MAX: usize = 256;

#[derive(Default)]
pub struct ProcessSockets {
    ends: Mutex<HashMap<i32, EndId>>,
    count: AtomicUsize,
}

impl ProcessSockets {
    /// Without a lock: most processes have none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub fn get(&self, fd: i32) -> Option<EndId> {
        if self.is_empty() {
            return None;
        }
        lock(&self.ends).get(&fd).copied()
    }

    /// Descriptors with their ends.
    pub fn all(&self) -> Vec<(i32, EndId)> {
        match self.is_empty() {
            true => Vec::new(),
            false => lock(&self.ends).iter().map(|(fd, e)| (*fd, *e)).collect(),
        }
    }

    /// False: the descriptor has one, there are too many, or `refuses`, which is asked under the lock.
    pub fn add(&self, fd: i32, end: EndId, refuses: impl Fn() -> bool) -> bool {
        let mut ends = lock(&self.ends);
        if ends.len() >= ENDS_MAX || ends.contains_key(&fd) || refuses() {
            return false;
        }
        ends.insert(fd, end);
        self.count.store(ends.len(), Ordering::Release);
        true
    }

    pub fn remove(&self, fd: i32, end: EndId) {
        let mut ends = lock(&self.ends);
        if ends.get(&fd) == Some(&end) {
            ends.remove(&fd);
        }
        self.count.store(ends.len(), Ordering::Release);
    }
}
