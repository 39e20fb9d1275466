//! Delays between attempts to reach a lost daemon.

use std::time::Duration;

/// The daemon may only be restarting, and then needs reports soon.
const SOON: Duration = Duration::from_millis(100);
const SOON_TRIES: u32 = 50;
/// Later attempts are so rare that they do not cost noticeably.
const LATER: Duration = Duration::from_secs(1);

/// The search for one daemon.
#[derive(Default)]
pub struct Again(u32);

impl Again {
    /// The daemon was found; the next search starts with short delays.
    pub fn found(&mut self) {
        self.0 = 0;
    }

    /// The daemon answers and refuses us: that will not change soon.
    pub fn refused(&mut self) {
        self.0 = SOON_TRIES;
    }

    /// The daemon was not found: the delay until the next attempt.
    pub fn pause(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        if self.0 <= SOON_TRIES { SOON } else { LATER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_short_first_and_long_later() {
        let mut again = Again::default();
        for _ in 0..SOON_TRIES {
            assert_eq!(again.pause(), SOON);
        }
        assert_eq!(again.pause(), LATER);
        again.found();
        assert_eq!(again.pause(), SOON);
        again.refused();
        assert_eq!(again.pause(), LATER);
    }
}
