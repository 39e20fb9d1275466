//! Compares outcomes: the native run is the reference, any deviation is a difference.

use std::collections::BTreeMap;

use crate::compare::difference::Difference;
use crate::compare::screen;
use crate::compare::verdicts;
use crate::guests::{Guest, How, Shows};
use crate::task::{Capture, End, Entry, Outcome};

/// Lines of a stream shown on each side.
const LINES_MAX: usize = 6;
/// Characters shown of one line.
const WIDTH_MAX: usize = 160;

/// Faults of a native run by itself.
pub fn native_faults(native: &Outcome) -> Vec<Difference> {
    let mut list = Vec::new();
    if matches!(native.end, End::Hang | End::Broken(_)) {
        list.push(Difference::new("status", "an end", &native.end));
    }
    if let Some(stuck) = &native.stuck {
        list.push(Difference::new("script", "all steps", stuck));
    }
    if !native.left.is_empty() {
        list.push(Difference::new(
            "left",
            "nothing running",
            native.left.join(" "),
        ));
    }
    list
}

/// Why nothing can be compared with the native run of a suite's unit, if that is so.
pub fn no_reference(guest: &Guest, native: &Outcome) -> Option<String> {
    let How::Suite { suite, .. } = &guest.how else {
        return None;
    };
    let faults = native_faults(native);
    if let Some(fault) = faults.first() {
        return Some(format!("no reference: natively {}", fault.shown.join(", ")));
    }
    let empty = suite.shows == Shows::Verdicts && verdicts::is_empty(&native.stdout);
    empty.then(|| "no reference: natively no test of it passes here".into())
}

/// All differences that a user could see; for a suite with verdicts, the differences between those.
pub fn differences(guest: &Guest, native: &Outcome, other: &Outcome) -> Vec<Difference> {
    if matches!(guest.how, How::Terminal { script } if script.screen) {
        return on_screens(native, other);
    }
    let verdicts = matches!(&guest.how, How::Suite { suite, .. } if suite.shows == Shows::Verdicts);
    if !verdicts {
        return all_differences(native, other);
    }
    let mut list = all_differences(native, other);
    list.retain(|found| !matches!(found.what.as_str(), "stdout" | "stderr" | "files"));
    list.extend(verdicts::difference(&native.stdout, &other.stdout));
    list
}

/// Differences between runs of full-screen programs.
fn on_screens(native: &Outcome, other: &Outcome) -> Vec<Difference> {
    let mut list = all_differences(native, other);
    list.retain(|found| found.what != "stdout");
    let rows = |side: &Outcome| {
        let bytes = side.stdout.head.chars();
        screen::rows(bytes.map(|c| u8::try_from(c).unwrap_or(b'?')))
    };
    let (a, b) = (rows(native), rows(other));
    let mut shown = Vec::new();
    for (x, y) in a.iter().zip(&b).filter(|(x, y)| x != y).take(LINES_MAX) {
        shown.push(format!("- {}", plain(x)));
        shown.push(format!("+ {}", plain(y)));
    }
    if !shown.is_empty() {
        let what = "screen".into();
        list.push(Difference { what, shown });
    }
    list
}

fn all_differences(native: &Outcome, other: &Outcome) -> Vec<Difference> {
    let mut list = Vec::new();
    if native.end != other.end {
        list.push(Difference::new("status", &native.end, &other.end));
    }
    list.extend(stream("stdout", &native.stdout, &other.stdout));
    list.extend(stream("stderr", &native.stderr, &other.stderr));
    list.extend(files(&native.files, &other.files));
    if native.left != other.left {
        list.push(Difference::new(
            "left",
            native.left.join(" "),
            other.left.join(" "),
        ));
    }
    if let (None, Some(stuck)) = (&native.stuck, &other.stuck) {
        list.push(Difference::new("script", "all steps", stuck));
    }
    if let Some(said) = &other.keeper {
        list.push(Difference::new("keeper", "no defect", said));
    }
    list
}

fn stream(what: &str, native: &Capture, other: &Capture) -> Option<Difference> {
    if native.sha256 == other.sha256 && native.bytes == other.bytes {
        return None;
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (
        native.head.split('\n').collect(),
        other.head.split('\n').collect(),
    );
    let first = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut shown = vec![format!(
        "line {}, {} and {} bytes in all",
        first + 1,
        native.bytes,
        other.bytes
    )];
    for (mark, side) in [('-', &a), ('+', &b)] {
        let rest = side.iter().skip(first);
        shown.extend(
            rest.take(LINES_MAX)
                .map(|line| format!("{mark} {}", plain(line))),
        );
    }
    Some(Difference {
        what: what.into(),
        shown,
    })
}

/// A line without characters that a terminal would interpret.
fn plain(line: &str) -> String {
    let text: String = line
        .chars()
        .flat_map(char::escape_default)
        .take(WIDTH_MAX)
        .collect();
    text.replace("\\'", "'")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
}

fn files(native: &[Entry], other: &[Entry]) -> Option<Difference> {
    let index = |list: &[Entry]| -> BTreeMap<String, String> {
        list.iter()
            .map(|entry| (entry.path.clone(), describe(entry)))
            .collect()
    };
    let (a, b) = (index(native), index(other));
    let mut shown = Vec::new();
    for path in a
        .keys()
        .chain(b.keys().filter(|path| !a.contains_key(*path)))
    {
        if a.get(path) == b.get(path) {
            continue;
        }
        for (mark, side) in [('-', &a), ('+', &b)] {
            let text = side.get(path).map_or("(none)", String::as_str);
            shown.push(format!("{mark} {}: {text}", plain(path)));
        }
    }
    shown.truncate(2 * LINES_MAX);
    (!shown.is_empty()).then(|| Difference {
        what: "files".into(),
        shown,
    })
}

fn describe(entry: &Entry) -> String {
    let digest = entry.sha256.get(..12).unwrap_or("");
    format!(
        "{} {:04o} {} bytes, {} links {digest}",
        entry.kind, entry.mode, entry.bytes, entry.links
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Stream;

    fn outcome(end: End, text: &[u8]) -> Outcome {
        let mut stream = Stream::new();
        stream.take(text);
        Outcome {
            stdout: stream.finish(),
            ..Outcome::without_run(end)
        }
    }

    fn file(path: &str, mode: u32, sha256: &str) -> Entry {
        Entry {
            path: path.into(),
            kind: "file".into(),
            mode,
            bytes: 3,
            links: 1,
            sha256: sha256.into(),
        }
    }

    #[test]
    fn equal_outcomes_have_no_difference() {
        let one = outcome(End::Exit(0), b"a\nb\n");
        assert_eq!(all_differences(&one, &one.clone()), vec![]);
        let mut slower = one.clone();
        (slower.wall_ms, slower.moves, slower.away) = (999, Some(7), Some(true));
        assert_eq!(all_differences(&one, &slower), vec![]);
    }

    #[test]
    fn status_and_signal_are_distinguished() {
        let (a, b) = (outcome(End::Exit(9), b""), outcome(End::Signal(9), b""));
        assert_eq!(all_differences(&a, &b)[0].shown, ["- exit 9", "+ signal 9"]);
    }

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let (a, b) = (
            outcome(End::Exit(0), b"a\nb\nc\n"),
            outcome(End::Exit(0), b"a\nB\r\nc\n"),
        );
        let found = all_differences(&a, &b);
        assert_eq!(found.len(), 1);
        assert!(found[0].shown[0].starts_with("line 2,"));
        assert_eq!(found[0].shown[1], "- b");
        assert!(found[0].shown.contains(&"+ B\\r".to_string()));
    }

    #[test]
    fn bytes_after_the_head_count() {
        let mut long = vec![b'x'; 1 << 20];
        let a = outcome(End::Exit(0), &long);
        *long.last_mut().expect("not empty") = b'y';
        let b = outcome(End::Exit(0), &long);
        assert_eq!(a.stdout.head, b.stdout.head);
        assert_eq!(all_differences(&a, &b).len(), 1);
    }

    #[test]
    fn files_differ_by_mode_contents_and_presence() {
        let mut a = outcome(End::Exit(0), b"");
        let mut b = a.clone();
        a.files = vec![
            file("gone", 0o644, "aa"),
            file("kept", 0o600, "bb"),
            file("mode", 0o600, "cc"),
        ];
        b.files = vec![
            file("kept", 0o600, "bb"),
            file("mode", 0o644, "cc"),
            file("new", 0o644, "dd"),
        ];
        let shown = all_differences(&a, &b)[0].shown.join("\n");
        for (text, wanted) in [
            ("gone", true),
            ("new", true),
            ("0600", true),
            ("kept", false),
        ] {
            assert_eq!(shown.contains(text), wanted, "{text} in {shown}");
        }
    }

    #[test]
    fn a_native_hang_is_a_fault() {
        assert_eq!(native_faults(&outcome(End::Hang, b"")).len(), 1);
        assert_eq!(native_faults(&outcome(End::Signal(6), b"")), vec![]);
    }

    #[test]
    fn processes_left_running_count() {
        let a = outcome(End::Exit(0), b"");
        let mut b = a.clone();
        b.left = vec!["armento".into()];
        assert_eq!(all_differences(&a, &b)[0].what, "left");
    }
}
