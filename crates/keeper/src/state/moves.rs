//! Moves under way, and the threads that wait for news of them.

use crate::deputy::HostLink;
use crate::sync::lock;
use armento_migrate::{MigrateError, Result};
use armento_model::{CpuTime, MoveId, Stay};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

/// How long the other node may take from the freeze to Ready. Bodies of a dead node are not waited for.
pub const READY_MAX: Duration = Duration::from_secs(20);

impl MoveEvent {
    /// The first news of a move, as its result: the bytes that came, and the CPU time used away before.
    pub fn ready(self) -> Result<(u64, CpuTime)> {
        match self {
            MoveEvent::Ready { bytes, away } => Ok((bytes, away)),
            MoveEvent::Failed { stay, detail } => Err(MigrateError::Declined(stay, detail)),
            MoveEvent::Thawed | MoveEvent::Warmed => Err(MigrateError::Stays(
                Stay::TargetFailed,
                "thawed too early".into(),
            )),
        }
    }
}

/// Waits for Ready or Failed: the bytes that came, and the CPU time used away before.
pub fn await_ready(news: &Receiver<MoveEvent>, limit: Duration) -> Result<(u64, CpuTime)> {
    news.recv_timeout(limit)
        .map_or_else(|_| Err(not_finished()), MoveEvent::ready)
}

/// How long the other node's own reason for a failure may take behind the end of its connection.
const REASON_MAX: Duration = Duration::from_millis(300);

/// The reason that the other node gives on the stream of calls when it has failed and closed the connection of a move. None
/// where `e` is no such end, or it gives none in time.
pub fn told_reason(e: &MigrateError, news: &Receiver<MoveEvent>) -> Option<(Stay, String)> {
    if !matches!(e, MigrateError::Link(_)) {
        return None;
    }
    let until = Instant::now() + REASON_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let MoveEvent::Failed { stay, detail } = news.recv_timeout(left).ok()? {
            return Some((stay, detail));
        }
    }
}

pub fn not_finished() -> MigrateError {
    MigrateError::Stays(Stay::LinkLost, "the other node did not finish".into())
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
