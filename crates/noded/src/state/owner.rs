//! Whether the owner of this machine is here: then no guest is, where that is set (`owner_first`).

use std::time::{Duration, Instant};

/// Work of this node's own from which its owner counts as here, hundredths of a process, smoothed: what comes and goes
/// within a second is none.
const OWNER_WORK: u64 = 50;

#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// The owner is away when not seen for so long; not set: the owner does not come first.
    idle: Option<Duration>,
    /// When the owner was last seen.
    seen: Option<Instant>,
    /// As of the last look: all who are told of it learn of it in the same period.
    here: bool,
}

impl Owner {
    /// The configuration was read (again).
    pub fn follow(&mut self, idle: Option<Duration>) {
        self.idle = idle;
    }

    pub fn comes_first(&self) -> bool {
        self.idle.is_some()
    }

    pub fn is_here(&self) -> bool {
        self.here && self.idle.is_some()
    }

    /// Once a period: work of this node's own, and how long ago a person typed here. True: the owner is back.
    pub fn look(&mut self, background: u64, typed_ago: impl FnOnce() -> Option<Duration>) -> bool {
        let Some(idle) = self.idle else {
            self.here = false;
            return false;
        };
        let was_here = self.is_here();
        let ago = match background >= OWNER_WORK {
            true => Some(Duration::ZERO),
            false => typed_ago().filter(|ago| *ago < idle),
        };
        let seen = ago.and_then(|ago| Instant::now().checked_sub(ago));
        self.seen = self.seen.max(seen);
        self.here = self.seen.is_some_and(|at| at.elapsed() < idle);
        !was_here && self.here
    }

    #[cfg(test)]
    pub fn last_seen(&mut self, ago: Duration) {
        self.seen = Instant::now().checked_sub(ago);
    }
}
