//! Locks that stay usable when a thread panicked with one held.

use std::sync::{Mutex, MutexGuard};

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a defect of ours; the data stays usable for the others.
    m.lock().unwrap_or_else(|e| e.into_inner())
}
