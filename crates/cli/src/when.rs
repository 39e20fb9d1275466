//! Times as people type them: `7d` ago, `yesterday`, `2026-11-29`, `2026-11-29 14:30`.

use jiff::civil::{Date, DateTime};
use jiff::{ToSpan, Zoned};

/// Whether a day alone means its beginning, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Begin,
    End,
}

/// What is accepted, for help and errors.
pub const FORMS: &str =
    "as 90s, 30m, 12h, 7d, 2w (ago), today, yesterday, 2026-11-29 or '2026-11-29 14:30'";

/// The Unix time in milliseconds that `text` means, seen from `now`.
pub fn parse(text: &str, edge: Edge, now: &Zoned) -> Result<u64, String> {
    let text = text.trim();
    let local = || {
        let at = text.parse::<DateTime>().ok()?;
        at.to_zoned(now.time_zone().clone()).ok()
    };
    let at = ago(text, now)
        .or_else(|| day(text, edge, now))
        .or_else(local);
    let at = at.ok_or_else(|| format!("`{text}` is no time: write it {FORMS}"))?;
    u64::try_from(at.timestamp().as_millisecond())
        .map_err(|_| format!("`{text}` is before 1970, when nothing was recorded"))
}

/// `7d`.
fn ago(text: &str, now: &Zoned) -> Option<Zoned> {
    let unit = text.chars().last()?;
    let n: i64 = text.strip_suffix(unit)?.parse().ok()?;
    if n < 0 {
        return None;
    }
    let zero = jiff::Span::new();
    let span = match unit {
        's' => zero.try_seconds(n),
        'm' => zero.try_minutes(n),
        'h' => zero.try_hours(n),
        'd' => zero.try_days(n),
        'w' => zero.try_weeks(n),
        _ => return None,
    };
    now.checked_sub(span.ok()?).ok()
}

fn day(text: &str, edge: Edge, now: &Zoned) -> Option<Zoned> {
    let day = match text {
        "today" => now.date(),
        "yesterday" => now.date().checked_sub(1.day()).ok()?,
        // A date with a time is more than a day.
        _ if text.len() > "2026-11-29".len() => return None,
        _ => text.parse::<Date>().ok()?,
    };
    let begin = |day: Date| day.to_zoned(now.time_zone().clone()).ok();
    match edge {
        Edge::Begin => begin(day),
        Edge::End => begin(day.checked_add(1.day()).ok()?)?
            .checked_sub(1.millisecond())
            .ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        let now: Zoned = "2026-11-29T21:30:00+01:00[+01:00]".parse().expect("a time");
        let check = |text: &str, edge, want: &str| {
            let want: Zoned = want.parse().expect(want);
            let want = want.timestamp().as_millisecond() as u64;
            assert_eq!(parse(text, edge, &now), Ok(want), "{text}");
        };
        check("7d", Edge::Begin, "2026-11-22T21:30:00+01:00[+01:00]");
        check("90s", Edge::Begin, "2026-11-29T21:28:30+01:00[+01:00]");
        check("today", Edge::Begin, "2026-11-29T00:00:00+01:00[+01:00]");
        check(
            "yesterday",
            Edge::End,
            "2026-11-28T23:59:59.999+01:00[+01:00]",
        );
        check(
            "2026-11-20",
            Edge::Begin,
            "2026-11-20T00:00:00+01:00[+01:00]",
        );
        check(
            "2026-11-20",
            Edge::End,
            "2026-11-20T23:59:59.999+01:00[+01:00]",
        );
        check(
            "2026-11-20 14:30",
            Edge::End,
            "2026-11-20T14:30:00+01:00[+01:00]",
        );
        for bad in [
            "",
            "d",
            "7",
            "7y",
            "-3d",
            "99999999999999d",
            "soon",
            "2026-13-01",
            "1960-01-01",
            "ü",
        ] {
            assert!(parse(bad, Edge::Begin, &now).is_err(), "{bad}");
        }
    }
}
