//! Locks of which a panic leaves nothing half-done.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, or for so long.
pub fn wait<'a, T>(c: &Condvar, g: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
    match c.wait_timeout(g, limit) {
        Ok((g, _)) => g,
        Err(e) => e.into_inner().0,
    }
}
