//! The launch queue: new programs of this home that start elsewhere go first, a few at a time.
//!
//! From: `noded/src/control/session.rs` (a keeper asks where). Next: the keeper's report that it has arrived or stays.
//! Measured with 24 encoders on four nodes of 0.4 of a core: when all start at once, the quarter that stays
//! takes half of home's processor from those that are being sent, and three nodes stand idle meanwhile. Only a
//! burst is treated so: where programs leave all the time, those that stay do not wait.

use armento_model::Pid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Under way at once for each core, and beside: one computes a handshake while another waits for its answer. More would
/// only begin later: with six instead of three on a tenth of a core, seventeen programs ended 0.7 s of 35 later on the
/// average. So many for each core are a burst, too.
const EACH: usize = 2;
const SPARE: usize = 1;
/// The longest wait for a turn: a program stands still meanwhile. With 47 programs on a tenth of a core and 2 s all
/// went at once, thirty of them in vain: each of their steps took longer than its timeout.
pub const QUEUE_MAX: Duration = Duration::from_secs(10);
/// A program that was not reported by then no longer keeps others from going.
const UNDER_WAY_MAX: Duration = Duration::from_secs(5);

pub struct LaunchQueue {
    room: Arc<Semaphore>,
    under_way: Mutex<HashMap<Pid, Turn>>,
    /// How many wait or are under way.
    leaving: watch::Sender<Leaving>,
    /// So many that leave do not take home's processor from the others.
    few: usize,
}

#[derive(Clone, Copy)]
struct Leaving {
    n: usize,
    /// When the first of those that leave now began.
    since: Instant,
}

/// A program that leaves, from asking to arriving; one of the few under way, if its turn came in time.
struct Turn {
    leaving: watch::Sender<Leaving>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leaving.send_modify(|l| l.n -= 1);
    }
}

impl LaunchQueue {
    pub fn new(cores: usize) -> LaunchQueue {
        LaunchQueue {
            room: Arc::new(Semaphore::new(EACH * cores + SPARE)),
            under_way: Mutex::default(),
            leaving: watch::Sender::new(Leaving {
                n: 0,
                since: Instant::now(),
            }),
            few: EACH * cores,
        }
    }

    /// Waits for the turn of `pid` to leave; goes on without one when that takes too long.
    pub async fn enter(self: &Arc<LaunchQueue>, pid: Pid) {
        self.leaving.send_modify(|l| {
            if l.n == 0 {
                l.since = Instant::now();
            }
            l.n += 1;
        });
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

    /// Waits, while many have begun to leave at once, until few are left; [`QUEUE_MAX`] from the first of them.
    pub async fn few_leave(&self) {
        let mut leaving = self.leaving.subscribe();
        let until = leaving.borrow().since + QUEUE_MAX;
        let few = leaving.wait_for(|l| l.n <= self.few);
        let _ = tokio::time::timeout_at(until, few).await;
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

    /// Under way at once from one core.
    const ROOM: Pid = (EACH + SPARE) as Pid;

    #[tokio::test(start_paused = true)]
    async fn a_few_leave_at_a_time_and_the_wait_is_bounded() {
        let d = Arc::new(LaunchQueue::new(1));
        for pid in 1..=ROOM {
            d.enter(pid).await;
        }
        let (other, began) = (d.clone(), tokio::time::Instant::now());
        let seventh = tokio::spawn(async move { other.enter(ROOM + 1).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!seventh.is_finished());
        d.leave(2);
        seventh.await.expect("it only waits");
        assert!(began.elapsed() < QUEUE_MAX);
        // Those under way are silent: their turns end by themselves.
        d.enter(ROOM + 2).await;
        assert!(began.elapsed() <= UNDER_WAY_MAX + QUEUE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn programs_that_stay_start_after_those_that_leave() {
        let d = Arc::new(LaunchQueue::new(1));
        let began = tokio::time::Instant::now();
        d.few_leave().await;
        for pid in 1..ROOM {
            d.enter(pid).await;
        }
        d.few_leave().await;
        assert!(began.elapsed().is_zero(), "few leave");
        d.enter(ROOM).await;
        let other = d.clone();
        let stays = tokio::spawn(async move { other.few_leave().await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!stays.is_finished());
        d.leave(2);
        stays.await.expect("it only waits");
        assert!(began.elapsed() < Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_stream_of_departures_is_not_waited_for() {
        let d = Arc::new(LaunchQueue::new(1));
        let began = tokio::time::Instant::now();
        for pid in 1..=ROOM {
            d.enter(pid).await;
        }
        let others = d.clone();
        tokio::spawn(async move {
            for pid in 1.. {
                tokio::time::sleep(Duration::from_millis(700)).await;
                others.leave(pid);
                others.enter(pid + ROOM).await;
            }
        });
        d.few_leave().await;
        assert_eq!(began.elapsed(), QUEUE_MAX);
        d.few_leave().await;
        assert_eq!(began.elapsed(), QUEUE_MAX);
    }
}
