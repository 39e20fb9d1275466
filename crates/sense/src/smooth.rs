//! Smoothed loads.

/// Share kept in each tenth of a second, thousandths. PAPER: openMosix's `slow-decay` and `fast-decay`: a node's load
/// rises slowly and falls fast, so that a short burst moves no process and the end of work takes effect at once.
const SLOW_PERMILLE: u64 = 975;
const FAST_PERMILLE: u64 = 926;
const STEP_MS: u64 = 100;
/// After this many steps the old value is negligible (0.975^300 = 0.0005).
const STEPS_MAX: u64 = 300;

/// An average over time, hundredths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smooth {
    /// Thousandths of a hundredth, so that rounding does not stop it before the goal.
    fine: u64,
    spare_ms: u64,
}

impl Smooth {
    pub fn hundredths(self) -> u32 {
        u32::try_from((self.fine + 500) / 1000).unwrap_or(u32::MAX)
    }

    /// `value` held for the last `past_ms`.
    pub fn feed(&mut self, value: u32, past_ms: u64) {
        let goal = u64::from(value) * 1000;
        let total_ms = self.spare_ms + past_ms;
        self.spare_ms = total_ms % STEP_MS;
        for _ in 0..(total_ms / STEP_MS).min(STEPS_MAX) {
            self.fine = if goal > self.fine {
                goal - (goal - self.fine) * SLOW_PERMILLE / 1000
            } else {
                goal + (self.fine - goal) * FAST_PERMILLE / 1000
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_rises_slowly_falls_fast_and_reaches_its_goal() {
        let mut load = Smooth::default();
        let mut check = |value, past_ms, want| {
            load.feed(value, past_ms);
            assert_eq!(load.hundredths(), want);
        };
        check(100, 1000, 22); // 1 - 0.975^10
        check(100, 50, 22); // half a step is saved up
        check(100, 50, 24);
        check(100, 60_000, 100);
        check(0, 1000, 46); // 0.926^10
        check(0, 60_000, 0);
    }
}
