//! Counts tests: the results of `cargo test` and `armento conform --json` as three numbers.

use serde_json::Value;
use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The last line of `make test`; tools parse it.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// Reads `cargo test -- --show-output`, line by line.
///
/// A test that lacks a privilege prints `skipped: WHAT IS MISSING` and returns; the harness counts it as passed, so its
/// next sum is corrected.
#[derive(Debug, Default)]
pub struct Tally {
    pub count: Count,
    skipped_since: u64,
}

impl Tally {
    pub fn line(&mut self, line: &str) {
        if line.starts_with("skipped: ") {
            self.skipped_since += 1;
        }
        let Some(rest) = line.strip_prefix("test result: ") else {
            return;
        };
        let Some((_, numbers)) = rest.split_once(". ") else {
            return;
        };
        let skipped = std::mem::take(&mut self.skipped_since);
        self.count.skipped += skipped;
        for part in numbers.split(';') {
            let mut words = part.split_whitespace();
            let (Some(n), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(n) = n.parse::<u64>() else { continue };
            match what {
                "passed" => self.count.passed += n.saturating_sub(skipped),
                "failed" => self.count.failed += n,
                "ignored" => self.count.skipped += n,
                _ => {}
            }
        }
    }
}

/// Reads `armento conform --json` (schema `armento.conform/1`): one test a guest and mode, and a line for each that
/// failed or is no longer a gap, and for each guest with a known gap.
pub fn conform(text: &str) -> Option<(Count, Vec<String>)> {
    let v: Value = serde_json::from_str(text).ok()?;
    let (mut count, mut lines) = (Count::default(), Vec::new());
    for guest in v.get("guests")?.as_array()? {
        let mut gaps: Vec<(String, Vec<&str>)> = Vec::new();
        for run in guest.get("runs")?.as_array()? {
            match run.get("verdict")?.as_str()? {
                "equal" => count.passed += 1,
                "skipped" => count.skipped += 1,
                "gap" => {
                    count.skipped += 1;
                    let reason = run["detail"]["reason"].as_str().unwrap_or("?");
                    let mode = run["mode"].as_str().unwrap_or("?");
                    match gaps.iter_mut().find(|(r, _)| r == reason) {
                        Some((_, modes)) => modes.push(mode),
                        None => gaps.push((reason.to_owned(), vec![mode])),
                    }
                }
                "gap-closed" => {
                    count.passed += 1;
                    lines.push(format!(
                        "GAP CLOSED: {}: remove it from known_gaps.rs",
                        place(guest, run)
                    ));
                }
                _ => {
                    count.failed += 1;
                    lines.push(format!("FAILED: {}", failure(guest, run)));
                }
            }
        }
        let name = guest["name"].as_str().unwrap_or("?");
        for (reason, modes) in gaps {
            lines.push(format!("gap: {name} {}: {reason}", modes.join(", ")));
        }
    }
    Some((count, lines))
}

/// Reads `armento conform --faults --json` (schema `armento.faults/1`): one test a campaign, a failure for each program
/// that ended wrongly; and a summary.
pub fn faults(text: &str) -> Option<(Count, String)> {
    let v: Value = serde_json::from_str(text).ok()?;
    let mut failed = v.get("wrong")?.as_array()?.len() as u64;
    failed += u64::from(!v["broken"].is_null());
    let count = Count {
        passed: u64::from(failed == 0),
        failed,
        skipped: 0,
    };
    let n = |key: &str| v[key].as_u64().unwrap_or(0);
    let line = match &v["safe"] {
        Value::Null => format!(
            "{} moves of {} programs, {} died of what kills, {failed} wrong",
            n("moves"),
            n("lives"),
            n("died")
        ),
        safe => format!(
            "{} programs, {} of {} that lost a body went on, {failed} wrong",
            n("lives"),
            safe["continued"],
            safe["lost"]
        ),
    };
    Some((count, line))
}

/// Guest and mode.
fn place(guest: &Value, run: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or("?").to_owned();
    format!("{} {}", text(&guest["name"]), text(&run["mode"]))
}

fn failure(guest: &Value, run: &Value) -> String {
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or("?").to_owned();
    let end = text(run, "end");
    let all = run["detail"].as_array().map_or(&[][..], Vec::as_slice);
    let what: Vec<String> = all.iter().map(|d| text(d, "what")).collect();
    let differs = if what.is_empty() {
        String::new()
    } else {
        format!("; differs: {}", what.join(", "))
    };
    format!(
        "{}: {end}{differs}; repeat: {}{}",
        place(guest, run),
        text(run, "repeat"),
        shown(all)
    )
}

/// The first lines of each difference, as `armento conform` shows them.
fn shown(differences: &[Value]) -> String {
    let mut out = String::new();
    for line in differences
        .iter()
        .filter_map(|d| d["shown"].as_array())
        .flat_map(|lines| lines.iter().take(SHOWN_MAX))
    {
        let line: String = line.as_str().unwrap_or("?").chars().take(160).collect();
        out.push_str("\n    ");
        out.push_str(&line);
    }
    out
}

/// Lines of a difference in the log; the report has all that were kept.
const SHOWN_MAX: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_lines_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "skipped: not root, cannot make namespaces",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; finished in 0.00s",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; finished in 1.2s",
        ] {
            tally.line(line);
        }
        assert_eq!(
            tally.count,
            Count {
                passed: 4,
                failed: 1,
                skipped: 2
            }
        );
        assert_eq!(tally.count.to_string(), "4 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn conformance_counts_guests_and_modes() {
        let text = r#"{"schema":"armento.conform/1","passed":1,"failed":1,"guests":[
            {"name":"files","runs":[{"mode":"home","verdict":"equal"},{"mode":"away","verdict":"equal"}]},
            {"name":"pipes","runs":[{"mode":"storm","verdict":"differs","end":"exit 1","repeat":"again",
                "detail":[{"what":"stdout","shown":["- a","+ b"]},{"what":"files"}]}]},
            {"name":"timers","runs":[{"mode":"home","verdict":"gap-closed","detail":"why"},
                {"mode":"away","verdict":"gap","detail":{"reason":"why","differences":[]}}]},
            {"name":"lame","runs":[{"mode":"home","verdict":"skipped","detail":"lame"}]}]}"#;
        let (count, lines) = conform(text).unwrap();
        assert_eq!(
            count,
            Count {
                passed: 3,
                failed: 1,
                skipped: 2
            }
        );
        assert_eq!(
            lines,
            [
                "FAILED: pipes storm: exit 1; differs: stdout, files; repeat: again\n    - a\n    + b",
                "GAP CLOSED: timers home: remove it from known_gaps.rs",
                "gap: timers away: why",
            ]
        );
        assert_eq!(conform("no json"), None);
    }

    #[test]
    fn campaign_counts_as_one_test() {
        let told = |wrong: &str, broken: &str| {
            let text =
                format!(r#"{{"moves":9,"lives":3,"died":1,"wrong":{wrong},"broken":{broken}}}"#);
            faults(&text).map(|(c, line)| (c.passed, c.failed, line))
        };
        let line = |n| format!("9 moves of 3 programs, 1 died of what kills, {n} wrong");
        assert_eq!(told("[]", "null"), Some((1, 0, line(0))));
        assert_eq!(told("[{}]", "null"), Some((0, 1, line(1))));
        assert_eq!(told("[]", "\"why\""), Some((0, 1, line(1))));
        assert_eq!(faults("{}"), None);
    }
}
