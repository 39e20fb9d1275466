//! Moves under way, and the threads that wait for news of them.

use crate::deputy::HostLink;
use crate::sync::lock;
use armento_model::{CpuTime, MoveId, Stay};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

/// News of a move, from its source or target.
#[derive(Debug)]
pub enum MoveEvent {
    Ready {
        bytes: u64,
        away: CpuTime,
    },
    Failed {
        stay: Stay,
        detail: String,
    },
    Thawed,
    /// The files that were asked for are there.
    Warmed,
}

/// The thread that waits for news of a move, and the hosts that may have some.
type Waiter = (Sender<MoveEvent>, Vec<Arc<HostLink>>);

/// Every move under way, by its number.
pub struct Moves {
    waiting: Mutex<HashMap<MoveId, Waiter>>,
    next: AtomicU64,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves {
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl Moves {
    /// `between`: the hosts that take part in it. Home is none.
    pub fn begin(&self, news: Sender<MoveEvent>, between: &[&Arc<HostLink>]) -> MoveId {
        let mv = self.next.fetch_add(1, Ordering::Relaxed);
        let between = between.iter().map(|l| (*l).clone()).collect();
        lock(&self.waiting).insert(mv, (news, between));
        mv
    }

    /// Sends news of a move to the thread that waits for it. `by`: the host that sends them; of moves of others it knows
    /// nothing.
    pub fn notify(&self, by: Option<&Arc<HostLink>>, mv: MoveId, e: MoveEvent) {
        let waiting = lock(&self.waiting);
        let Some((tx, between)) = waiting.get(&mv) else {
            return;
        };
        if by.is_none_or(|by| between.iter().any(|l| Arc::ptr_eq(l, by))) {
            let _ = tx.send(e);
        }
    }

    pub fn end(&self, mv: MoveId) {
        lock(&self.waiting).remove(&mv);
    }

    pub fn is_under_way(&self, mv: MoveId) -> bool {
        lock(&self.waiting).contains_key(&mv)
    }
}
