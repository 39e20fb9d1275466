//! Messages about certificates that are expired or not valid yet: either clock may be wrong, so both are named.

use rustls::CertificateError;
use rustls::pki_types::UnixTime;
use time::{Duration, OffsetDateTime};

/// `None` if the error has another cause.
pub(crate) fn describe(e: &CertificateError) -> Option<String> {
    use CertificateError as C;
    match e {
        C::NotValidYetContext { time, not_before } => Some(format!(
            "its certificate is not valid yet: it begins at {}, and this machine's clock shows {}: the two clocks are at least {} apart",
            shown(*not_before),
            shown(*time),
            between(*time, *not_before)
        )),
        C::ExpiredContext { time, not_after } => Some(format!(
            "its certificate has expired at {}, and this machine's clock shows {}: it was not renewed for {}, or the two clocks are as far apart",
            shown(*not_after),
            shown(*time),
            between(*time, *not_after)
        )),
        C::NotValidYet => Some("its certificate is not valid yet by this machine's clock".into()),
        C::Expired => Some("its certificate has expired by this machine's clock".into()),
        _ => None,
    }
}

fn between(a: UnixTime, b: UnixTime) -> String {
    span(a.as_secs().abs_diff(b.as_secs()))
}

fn shown(at: UnixTime) -> String {
    let s = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    // Beyond the year 9999 no date is shown.
    let Ok(t) = OffsetDateTime::from_unix_timestamp(s) else {
        return format!("second {s}");
    };
    let (date, hour, minute) = (t.date(), t.hour(), t.minute());
    format!(
        "{:04}-{:02}-{:02} {hour:02}:{minute:02} UTC",
        date.year(),
        u8::from(date.month()),
        date.day()
    )
}

fn span(s: u64) -> String {
    let of = |d: Duration| d.whole_seconds().unsigned_abs();
    let (min, hour, day) = (of(Duration::MINUTE), of(Duration::HOUR), of(Duration::DAY));
    match s {
        s if s < 2 * min => format!("{s} s"),
        s if s < 2 * hour => format!("{} min", s / min),
        s if s < 2 * day => format!("{} h", s / hour),
        s if s < 730 * day => format!("{} days", s / day),
        s => format!("{} years", s / (365 * day)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(s))
    }

    #[test]
    fn both_clocks_are_named() {
        let check =
            |e: CertificateError, want: &str| assert_eq!(describe(&e).as_deref(), Some(want));
        check(
            CertificateError::NotValidYetContext {
                time: at(1_577_836_800),
                not_before: at(1_795_836_780),
            },
            "its certificate is not valid yet: it begins at 2026-11-28 03:33 UTC, and this machine's clock shows 2020-01-01 00:00 UTC: \
             the two clocks are at least 6 years apart",
        );
        check(
            CertificateError::ExpiredContext {
                time: at(1_795_923_240),
                not_after: at(1_795_836_780),
            },
            "its certificate has expired at 2026-11-28 03:33 UTC, and this machine's clock shows 2026-11-29 03:34 UTC: \
             it was not renewed for 24 h, or the two clocks are as far apart",
        );
        assert_eq!(describe(&CertificateError::Revoked), None);
    }
}
