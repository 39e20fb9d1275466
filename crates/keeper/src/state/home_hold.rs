//! How long a process stays at home after a call has brought it there.

use std::time::{Duration, Instant};

/// First hold after a call brought a process home; doubles up to [`HOLD_MAX`].
const HOLD_MIN: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(60);

/// The time for which a process is held at home, and how `--on` sends it back when that is over.
pub struct HomeHold {
    until: Option<Instant>,
    /// How long the next hold is.
    next: Duration,
    /// When it was last sent to the node that the user named.
    sent_back: Instant,
}

impl HomeHold {
    pub fn new() -> HomeHold {
        HomeHold {
            until: None,
            next: HOLD_MIN,
            sent_back: Instant::now(),
        }
    }

    /// A call brought the process home. `limit`: how long a storm holds it.
    pub fn begin(&mut self, limit: Option<Duration>) {
        self.until = Some(Instant::now() + limit.unwrap_or(self.next));
        self.next = (self.next * 2).min(HOLD_MAX);
    }

    pub fn is_on(&self) -> bool {
        self.until.is_some_and(|t| Instant::now() < t)
    }

    /// Whether it may be sent to the node that the user named. It is not tried again at once.
    pub fn may_send_back(&self) -> bool {
        !self.is_on() && self.sent_back.elapsed() >= HOLD_MIN
    }

    pub fn sent_back(&mut self) {
        self.sent_back = Instant::now();
    }

    /// As if the last time were long ago.
    #[cfg(test)]
    pub fn forget_last(&mut self) {
        self.sent_back -= HOLD_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hold_is_twice_as_long_up_to_a_minute() {
        let mut h = HomeHold::new();
        assert!(!h.is_on());
        let mut lasts = Vec::new();
        for _ in 0..8 {
            lasts.push(h.next.as_secs());
            h.begin(None);
            assert!(h.is_on());
        }
        assert_eq!(lasts, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_storm_sets_its_own_limit() {
        let mut h = HomeHold::new();
        h.begin(Some(Duration::ZERO));
        assert!(!h.is_on());
    }

    #[test]
    fn a_process_is_not_sent_back_twice_in_a_moment() {
        let mut h = HomeHold::new();
        h.forget_last();
        assert!(h.may_send_back());
        h.begin(None);
        assert!(!h.may_send_back());
        h.until = None;
        h.sent_back();
        assert!(!h.may_send_back());
    }
}
