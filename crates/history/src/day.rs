//! Days of this machine's calendar, counted from 1970-01-01.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SpanRound, Timestamp, Unit};

/// The day of this Unix time (milliseconds) in `zone`.
pub fn of(at_ms: u64, zone: &TimeZone) -> i64 {
    let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    let date = at.unwrap_or(Timestamp::MAX).to_zoned(zone.clone()).date();
    number(date)
}

fn number(date: Date) -> i64 {
    let epoch = Date::constant(1970, 1, 1);
    let span = epoch.until(date).unwrap_or_default();
    let days = span.round(SpanRound::new().largest(Unit::Day).days_are_24_hours());
    days.map_or(0, |s| s.get_days().into())
}

/// As 2026-11-29.
pub fn shown(day: i64) -> String {
    let epoch = Date::constant(1970, 1, 1);
    let span = i32::try_from(day)
        .ok()
        .and_then(|d| jiff::Span::new().try_days(d).ok());
    let date = span.and_then(|s| epoch.checked_add(s).ok());
    date.map_or_else(|| day.to_string(), |d| d.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_zone() {
        let east = TimeZone::fixed(jiff::tz::offset(5));
        let check = |at_ms, zone: &TimeZone, day: &str| {
            assert_eq!(shown(of(at_ms, zone)), day, "{at_ms}");
        };
        check(0, &TimeZone::UTC, "1970-01-01");
        check(86_399_999, &TimeZone::UTC, "1970-01-01");
        check(86_400_000, &TimeZone::UTC, "1970-01-02");
        // 2026-11-29 21:30 UTC.
        check(1_795_987_800_000, &TimeZone::UTC, "2026-11-29");
        check(1_795_987_800_000, &east, "2026-11-30");
        assert_eq!(
            of(u64::MAX, &TimeZone::UTC),
            of(i64::MAX as u64, &TimeZone::UTC)
        );
    }
}
