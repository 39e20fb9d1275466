//! Whether pages of a process are still to come from where it ran before (post-copy).

use crate::sync::lock;
use armento_migrate::{MigrateError, Result};
use armento_model::Stay;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How long a fork or a move waits for the last page of a process: 8 GiB over a gigabit.
const LAST_PAGE_MAX: Duration = Duration::from_secs(70);

/// Forks, mappings and moves, which need the memory complete, wait here.
#[derive(Default)]
pub struct PendingPages {
    some: Mutex<bool>,
    none: Condvar,
}

impl PendingPages {
    pub fn set(&self, some: bool) {
        *lock(&self.some) = some;
        self.none.notify_all();
    }

    pub fn any(&self) -> bool {
        *lock(&self.some)
    }

    /// Waits until all pages are there.
    pub fn wait(&self) -> Result<()> {
        let some = lock(&self.some);
        let all = self
            .none
            .wait_timeout_while(some, LAST_PAGE_MAX, |some| *some);
        match all.unwrap_or_else(|e| e.into_inner()).1.timed_out() {
            false => Ok(()),
            true => Err(MigrateError::Stays(
                Stay::Busy,
                "the rest of its memory is still coming".into(),
            )),
        }
    }
}
