//! When a daemon that was lost is looked for.

use std::time::Duration;

/// It may only be started again, and whoever starts it then asks for what it should know.
const SOON: Duration = Duration::from_millis(100);
const SOON_TRIES: u32 = 50;
/// … and for good nobody should notice that it is looked for.
const LATER: Duration = Duration::from_secs(1);

/// The search for one daemon.
#[derive(Default)]
pub struct Again(u32);

impl Again {
    /// It was found; the next search begins anew.
    pub fn found(&mut self) {
        self.0 = 0;
    }

    /// It answers and wants nothing of us: that will not change soon.
    pub fn refused(&mut self) {
        self.0 = SOON_TRIES;
    }

    /// It was not found: after this it is looked for again.
    pub fn pause(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        if self.0 <= SOON_TRIES { SOON } else { LATER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_soon_then_seldom() {
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
