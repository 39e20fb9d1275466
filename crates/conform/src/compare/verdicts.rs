//! The verdicts of a test suite, a line each: `ok NAME`, `FAIL NAME`, `skip NAME`. Names may occur several times. Other
//! lines are ignored.

use std::collections::BTreeMap;

use crate::compare::difference::Difference;
use crate::task::Capture;

/// Limit of differing tests that are shown.
const SHOWN_MAX: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Fail,
    Skip,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skip",
        }
    }
}

type Verdicts<'a> = BTreeMap<&'a str, Vec<Verdict>>;

fn parse(text: &str) -> Verdicts<'_> {
    let mut all = Verdicts::new();
    for line in text.lines() {
        let verdict = match line.split_once(' ') {
            Some(("ok", name)) => (Verdict::Ok, name),
            Some(("FAIL", name)) => (Verdict::Fail, name),
            Some(("skip", name)) => (Verdict::Skip, name),
            _ => continue,
        };
        all.entry(verdict.1.trim()).or_default().push(verdict.0);
    }
    all
}

/// Tests with another verdict than natively. A test that fails natively is no reference.
pub fn difference(native: &Capture, other: &Capture) -> Option<Difference> {
    let (a, b) = (parse(&native.head), parse(&other.head));
    let words = |list: Option<&Vec<Verdict>>| match list {
        Some(list) => list.iter().map(|v| v.word()).collect::<Vec<_>>().join(" "),
        None => "none".into(),
    };
    let mut shown = Vec::new();
    let mut count = 0;
    for name in a
        .keys()
        .chain(b.keys().filter(|name| !a.contains_key(*name)))
    {
        let (left, right) = (a.get(name), b.get(name));
        if left == right || left.is_some_and(|list| list.contains(&Verdict::Fail)) {
            continue;
        }
        count += 1;
        if shown.len() < 2 * SHOWN_MAX {
            shown.push(format!("- {} {name}", words(left)));
            shown.push(format!("+ {} {name}", words(right)));
        }
    }
    shown.insert(0, format!("{count} of {} tests", a.len()));
    (count > 0).then(|| Difference {
        what: "tests".into(),
        shown,
    })
}

/// Whether no test of it passed.
pub fn is_empty(native: &Capture) -> bool {
    !parse(&native.head)
        .values()
        .flatten()
        .any(|v| *v == Verdict::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(text: &str) -> Capture {
        Capture {
            head: text.into(),
            ..Capture::default()
        }
    }

    fn check(native: &str, other: &str, lines: &[&str]) {
        let found = difference(&capture(native), &capture(other));
        let shown = found.map_or_else(Vec::new, |d| d.shown);
        assert_eq!(shown.iter().skip(1).collect::<Vec<_>>(), lines);
    }

    #[test]
    fn tests_are_compared_by_name() {
        check("ok 1\nok 2\n", "ok 2\nok 1\n", &[]);
        check("ok 1\nnoise\n", "other noise\nok 1\n", &[]);
        check("ok 1\nok 2\n", "ok 1\nFAIL 2\n", &["- ok 2", "+ FAIL 2"]);
        check("ok 1\n", "", &["- ok 1", "+ none 1"]);
        check("ok 1\n", "ok 1\nok 2\n", &["- none 2", "+ ok 2"]);
        check("skip 1\n", "ok 1\n", &["- skip 1", "+ ok 1"]);
        check("ok 1\nok 1\n", "ok 1\n", &["- ok ok 1", "+ ok 1"]);
    }

    #[test]
    fn native_failures_are_no_reference() {
        check("FAIL 1\nok 2\n", "ok 1\nok 2\n", &[]);
        check(
            "FAIL 1\nok 2\n",
            "FAIL 1\nFAIL 2\n",
            &["- ok 2", "+ FAIL 2"],
        );
        assert!(is_empty(&capture("FAIL 1\nskip 2\n")));
        assert!(!is_empty(&capture("FAIL 1\nok 2\n")));
    }
}
