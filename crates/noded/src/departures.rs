//! Fresh programs of this home that are on their way out: a few at a time.
//!
//! From: `control.rs` (a keeper asks where). Next: the keeper's report that it has arrived or stays.
//! Measured: two dozen at once share home's processor, so that all of them arrive last; in turn, half of
//! them compute elsewhere by the time that half of the work is done.

use armento_model::Pid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Under way at once beside two for each core: one computes a handshake while another waits for its answer.
const SPARE: usize = 2;
/// Nobody waits longer for its turn: a program stands still meanwhile.
pub const QUEUE_MAX: Duration = Duration::from_secs(2);
/// Who has not been heard of by then no longer keeps others from going.
const UNDER_WAY_MAX: Duration = Duration::from_secs(2);

pub struct Departures {
    room: Arc<Semaphore>,
    under_way: Mutex<HashMap<Pid, OwnedSemaphorePermit>>,
}

impl Departures {
    pub fn new(cores: usize) -> Departures {
        Departures {
            room: Arc::new(Semaphore::new(2 * cores + SPARE)),
            under_way: Mutex::default(),
        }
    }

    /// Waits for the turn of `pid`; goes on without one when that takes too long.
    pub async fn enter(self: &Arc<Departures>, pid: Pid) {
        let turn = self.room.clone().acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(QUEUE_MAX, turn).await else {
            return;
        };
        self.lock().insert(pid, turn);
        let me = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(UNDER_WAY_MAX).await;
            me.leave(pid);
        });
    }

    /// It has arrived, stays, or is no more.
    pub fn leave(&self, pid: Pid) {
        self.lock().remove(&pid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, OwnedSemaphorePermit>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_at_a_time_and_nobody_waits_for_ever() {
        let d = Arc::new(Departures::new(1));
        for pid in 1..=4 {
            d.enter(pid).await;
        }
        let (other, began) = (d.clone(), tokio::time::Instant::now());
        let fifth = tokio::spawn(async move { other.enter(5).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!fifth.is_finished());
        d.leave(2);
        fifth.await.expect("it only waits");
        assert!(began.elapsed() < QUEUE_MAX);
        // Those under way are silent: their turns end by themselves.
        d.enter(6).await;
        assert!(began.elapsed() <= UNDER_WAY_MAX + QUEUE_MAX);
    }
}
