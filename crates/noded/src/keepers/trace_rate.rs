//! How often keepers may have the daemon make a process name its tracer (`work/yama.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many in a second: a `make` that spreads asks for some tens.
pub const PER_SECOND_MAX: u32 = 200;

/// One at a time, and a bounded number in a second.
#[derive(Default)]
pub struct TraceRate {
    pub one: Arc<tokio::sync::Mutex<()>>,
    recent: Option<(Instant, u32)>,
}

impl TraceRate {
    /// False when there were too many within the last second.
    pub fn take(&mut self, now: Instant) -> bool {
        let (since, n) = self
            .recent
            .filter(|(since, _)| now.duration_since(*since) < Duration::from_secs(1))
            .unwrap_or((now, 0));
        self.recent = Some((since, n + 1));
        n < PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_rate_are_refused() {
        let mut rate = TraceRate::default();
        let now = Instant::now();
        assert!((0..PER_SECOND_MAX).all(|_| rate.take(now)));
        assert!(!rate.take(now));
        assert!(rate.take(now + Duration::from_secs(1)));
    }
}
