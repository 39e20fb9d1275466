//! The time of day of this daemon.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// So many milliseconds ahead is the time of day that this daemon tells. Only tests set it: no namespace has a time of day
/// of its own (time_namespaces(7)).
const AHEAD: &str = "ARMENTO_CLOCK_AHEAD_MS";

pub fn realtime_ns() -> i64 {
    static AHEAD_NS: OnceLock<i64> = OnceLock::new();
    let said = || std::env::var(AHEAD).ok()?.parse::<i64>().ok();
    let ahead_ns = AHEAD_NS.get_or_init(|| said().unwrap_or(0).saturating_mul(1_000_000));
    // Before 1970 a clock is as wrong as it can be.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
    now_ns.saturating_add(*ahead_ns)
}

/// Seconds of Unix time.
pub fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// Milliseconds of Unix time, as other nodes see this node's clock.
pub fn unix_ms() -> u64 {
    u64::try_from(realtime_ns() / 1_000_000).unwrap_or(0)
}
