//! Locks and waits that any part of the host may use.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a defect of ours; the data stays usable for the others.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// A pause that another thread can cut short.
#[derive(Default)]
pub struct Pause(Mutex<bool>, Condvar);

impl Pause {
    /// Ends the wait under way, or the next one.
    pub fn end(&self) {
        *lock(&self.0) = true;
        self.1.notify_all();
    }

    /// Waits `most`, or `least` when it is cut short.
    pub fn wait(&self, least: Duration, most: Duration) {
        let began = Instant::now();
        let ended = lock(&self.0);
        let waits = self.1.wait_timeout_while(ended, most, |ended| !*ended);
        let (mut ended, _) = waits.unwrap_or_else(|e| e.into_inner());
        if std::mem::take(&mut *ended) {
            drop(ended);
            std::thread::sleep(least.saturating_sub(began.elapsed()));
        }
    }
}
