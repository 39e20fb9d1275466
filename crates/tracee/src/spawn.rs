//! Starts threads, with a fallback for when the kernel allows no more of them.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

type Work = Box<dyn FnOnce() + Send>;

/// Queue of work for which no thread could be started.
static SPARE: OnceLock<Mutex<Sender<Work>>> = OnceLock::new();

/// Starts a thread for long-running work. KERNEL: EAGAIN at the limits of the user, the group or the machine
/// (clone(2)); the standard library's `spawn` would panic.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // KERNEL: names have at most 15 bytes; the rest is cut off.
    Builder::new().name(name.into()).spawn(work).map(drop)
}

/// Starts the fallback thread that does the work of [`soon`] when no thread can be started. Call it once, early, while
/// threads can still be started.
pub fn spare() -> io::Result<()> {
    let (tx, all) = channel::<Work>();
    start("spare", move || all.iter().for_each(|work| work()))?;
    // A second call leaves the first queue in place.
    drop(SPARE.set(Mutex::new(tx)));
    Ok(())
}

/// Starts a thread for short work. If no thread can be started, the work is queued with other such work (see
/// [`spare`]). The caller never does it itself: a listener that waits for home would wait for calls that wait for the
/// listener.
pub fn soon(name: &str, work: impl FnOnce() + Send + 'static) {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |w: &Mutex<Option<_>>| w.lock().unwrap_or_else(PoisonError::into_inner).take();
    let there = work.clone();
    let run = move || {
        if let Some(work) = take(&there) {
            work();
        }
    };
    if start(name, run).is_err()
        && let Some(work) = take(&work)
    {
        turn(Box::new(work));
    }
}

/// Does `other` in parallel with `mine`, or before it if no thread can be started. `None`: it panicked.
pub fn both<A: Send, B>(
    name: &str,
    other: impl FnOnce() -> A + Send,
    mine: impl FnOnce() -> B,
) -> (Option<A>, B) {
    let other = Mutex::new(Some(other));
    let work = || {
        let work = other.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map(|w| w())
    };
    std::thread::scope(
        |s| match Builder::new().name(name.into()).spawn_scoped(s, work) {
            Ok(thread) => {
                let mine = mine();
                (thread.join().ok().flatten(), mine)
            }
            Err(_) => (work(), mine()),
        },
    )
}

/// If [`spare`] was not called or failed, the caller does the work itself.
fn turn(work: Work) {
    let Some(spare) = SPARE.get() else {
        return work();
    };
    let sent = spare
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(work);
    if let Err(back) = sent {
        (back.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    #[test]
    fn work_runs_once() {
        let (tx, rx) = mpsc::channel();
        super::soon("aside", move || tx.send(1).expect("heard"));
        assert_eq!(rx.iter().sum::<i32>(), 1);
    }

    #[test]
    fn both_closures_run() {
        let (tx, rx) = mpsc::channel();
        let (other, mine) = super::both("other", || tx.send(1), || rx.recv());
        assert_eq!((other, mine), (Some(Ok(())), Ok(1)));
    }

    #[test]
    fn work_without_a_thread_is_queued_and_done_by_the_fallback_thread() {
        super::spare().expect("a thread");
        let (tx, rx) = mpsc::channel();
        for n in 0..3 {
            let tx = tx.clone();
            let me = std::thread::current().id();
            super::turn(Box::new(move || {
                tx.send((n, std::thread::current().id() == me))
                    .expect("heard")
            }));
        }
        drop(tx);
        let all: Vec<_> = rx.iter().collect();
        assert_eq!(all, [(0, false), (1, false), (2, false)]);
    }
}
