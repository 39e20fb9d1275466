//! Points in time that outlast a process image: nanoseconds of CLOCK_MONOTONIC, which `Instant` is of, too.

use armento_tracee::sys;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::{Duration, Instant};

fn now_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Of a time before the machine's start: that start.
pub fn to_ns(at: Instant) -> u64 {
    let (now, ns) = (Instant::now(), now_ns());
    let later = u64::try_from(at.saturating_duration_since(now).as_nanos()).unwrap_or(u64::MAX);
    let earlier = u64::try_from(now.saturating_duration_since(at).as_nanos()).unwrap_or(u64::MAX);
    ns.saturating_add(later).saturating_sub(earlier)
}

/// One that cannot be told is now.
pub fn of_ns(ns: u64) -> Instant {
    let (now, now_ns) = (Instant::now(), now_ns());
    let at = match ns.checked_sub(now_ns) {
        Some(later) => now.checked_add(Duration::from_nanos(later)),
        None => now.checked_sub(Duration::from_nanos(now_ns - ns)),
    };
    at.unwrap_or(now)
}

pub fn serialize<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
    to_ns(*at).serialize(to)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
    u64::deserialize(from).map(of_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_after_it_was_written_down() {
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        for at in [now, now + hour] {
            let back = of_ns(to_ns(at));
            let off = back.max(at) - back.min(at);
            assert!(off < Duration::from_secs(1), "{off:?}");
        }
        assert!(of_ns(u64::MAX) >= now);
    }
}
