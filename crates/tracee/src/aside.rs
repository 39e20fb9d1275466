//! Threads, where there may be no room for another.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// A thread of its own for work that lasts. KERNEL: EAGAIN at the limits of the user, the group or the
/// machine (clone(2)); the standard library's `spawn` would panic.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // KERNEL: names have at most 15 bytes; the rest is cut off.
    Builder::new().name(name.into()).spawn(work).map(drop)
}

/// A thread of its own for work that ends soon; where there is no room for one, its caller does it.
/// Only for work that its caller may wait for.
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
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    #[test]
    fn work_is_done_once() {
        let (tx, rx) = mpsc::channel();
        super::soon("aside", move || tx.send(1).expect("heard"));
        assert_eq!(rx.iter().sum::<i32>(), 1);
    }
}
