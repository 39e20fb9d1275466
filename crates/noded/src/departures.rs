//! Fresh programs of this home that are on their way out go first, a few at a time.
//!
//! From: `control.rs` (a keeper asks where). Next: the keeper's report that it has arrived or stays.
//! Measured with 24 encoders on four nodes of 0.4 of a core: when all start at once, the quarter that stays
//! takes half of home's processor from those who are being sent, and three nodes stand idle meanwhile.

use armento_model::Pid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Under way at once for each core, and beside: one computes a handshake while another waits for its answer.
const EACH: usize = 3;
const SPARE: usize = 3;
/// Nobody waits longer for its turn: a program stands still meanwhile.
pub const QUEUE_MAX: Duration = Duration::from_secs(2);
/// Who has not been heard of by then no longer keeps others from going.
const UNDER_WAY_MAX: Duration = Duration::from_secs(2);

pub struct Departures {
    room: Arc<Semaphore>,
    under_way: Mutex<HashMap<Pid, Turn>>,
    /// How many wait or are under way.
    leaving: watch::Sender<usize>,
}

/// One of those who leave, from asking to arriving; one of the few under way, if it got so far in time.
struct Turn {
    leaving: watch::Sender<usize>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leaving.send_modify(|n| *n -= 1);
    }
}

impl Departures {
    pub fn new(cores: usize) -> Departures {
        Departures {
            room: Arc::new(Semaphore::new(EACH * cores + SPARE)),
            under_way: Mutex::default(),
            leaving: watch::Sender::new(0),
        }
    }

    /// Waits for the turn of `pid` to leave; goes on without one when that takes too long.
    pub async fn enter(self: &Arc<Departures>, pid: Pid) {
        self.leaving.send_modify(|n| *n += 1);
        let mut turn = Turn {
            leaving: self.leaving.clone(),
            _room: None,
        };
        let room = tokio::time::timeout(QUEUE_MAX, self.room.clone().acquire_owned());
        turn._room = room.await.ok().and_then(Result::ok);
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

    /// Waits until nobody leaves; not for ever.
    pub async fn nobody_leaves(&self) {
        let mut leaving = self.leaving.subscribe();
        let none = leaving.wait_for(|n| *n == 0);
        let _ = tokio::time::timeout(QUEUE_MAX, none).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, Turn>> {
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
        for pid in 1..=6 {
            d.enter(pid).await;
        }
        let (other, began) = (d.clone(), tokio::time::Instant::now());
        let seventh = tokio::spawn(async move { other.enter(7).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!seventh.is_finished());
        d.leave(2);
        seventh.await.expect("it only waits");
        assert!(began.elapsed() < QUEUE_MAX);
        // Those under way are silent: their turns end by themselves.
        d.enter(8).await;
        assert!(began.elapsed() <= UNDER_WAY_MAX + QUEUE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stays_lets_those_who_leave_go_first() {
        let d = Arc::new(Departures::new(1));
        d.nobody_leaves().await;
        d.enter(1).await;
        d.enter(2).await;
        let (other, began) = (d.clone(), tokio::time::Instant::now());
        let stays = tokio::spawn(async move { other.nobody_leaves().await });
        d.leave(1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!stays.is_finished());
        d.leave(2);
        stays.await.expect("it only waits");
        assert!(began.elapsed() < Duration::from_millis(200));
    }
}
