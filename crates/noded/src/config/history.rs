//! `[history]`: how much is kept of what jobs of this home used.

use serde::Deserialize;

/// Longer would be ten years.
const DAYS_MAX: u32 = 3660;
/// An empty history has some pages already.
const MEGABYTES_MIN: u32 = 1;
const MEGABYTES_MAX: u32 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct History {
    pub enabled: bool,
    /// Days that are kept.
    pub days: u32,
    /// Size of the file at most, MiB; the oldest jobs go first.
    pub megabytes: u32,
}

impl Default for History {
    fn default() -> History {
        History {
            enabled: true,
            days: 400,
            megabytes: 200,
        }
    }
}

/// Refuses what cannot hold.
pub fn check(history: &History) -> Result<(), String> {
    if !(1..=DAYS_MAX).contains(&history.days) {
        return Err(format!("history.days lies between 1 and {DAYS_MAX}"));
    }
    if !(MEGABYTES_MIN..=MEGABYTES_MAX).contains(&history.megabytes) {
        return Err(format!(
            "history.megabytes lies between {MEGABYTES_MIN} and {MEGABYTES_MAX}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::settings::Config;
    use super::*;

    #[test]
    fn history_is_on_bounded_and_checked() {
        let of = |text: &str| Config::parse(text).map(|c| c.history);
        assert_eq!(of(""), Ok(History::default()));
        let less = History {
            days: 30,
            ..History::default()
        };
        assert_eq!(of("[history]\ndays = 30"), Ok(less));
        assert!(of("[history]\nenabled = false").is_ok_and(|h| !h.enabled));
        for bad in ["days = 0", "megabytes = 0", "hours = 3", "days = 4000"] {
            assert!(of(&format!("[history]\n{bad}")).is_err(), "{bad}");
        }
    }
}
