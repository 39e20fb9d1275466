//! Counting tests: what `cargo test` and `armento conform --json` say, as three numbers.

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

/// The last line of `make test`; tools read it.
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
/// A test that lacks a privilege prints `skipped: WHAT IS MISSING` and returns; the harness counts
/// it as passed, so its next sum is corrected.
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

/// Reads `armento conform --json`: the sums if it prints them, else one entry a guest and mode.
pub fn conform(text: &str) -> Option<Count> {
    let v: Value = serde_json::from_str(text).ok()?;
    let sum = |key: &str| {
        v.get(key)
            .or_else(|| v.get("summary")?.get(key))
            .and_then(Value::as_u64)
    };
    if let (Some(passed), Some(failed)) = (sum("passed"), sum("failed")) {
        return Some(Count {
            passed,
            failed,
            skipped: sum("skipped").unwrap_or(0),
        });
    }
    let mut count = Count::default();
    for r in v.get("results")?.as_array()? {
        match r
            .get("verdict")
            .or_else(|| r.get("outcome"))
            .and_then(Value::as_str)?
        {
            "pass" | "passed" | "equal" | "ok" => count.passed += 1,
            "skip" | "skipped" => count.skipped += 1,
            _ => count.failed += 1,
        }
    }
    Some(count)
}

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
    fn conform_sums_or_rows() {
        let sums = r#"{"schema":1,"passed":120,"failed":1,"skipped":2,"results":[]}"#;
        assert_eq!(
            conform(sums),
            Some(Count {
                passed: 120,
                failed: 1,
                skipped: 2
            })
        );
        let rows =
            r#"{"results":[{"outcome":"equal"},{"outcome":"differs"},{"outcome":"skipped"}]}"#;
        assert_eq!(
            conform(rows),
            Some(Count {
                passed: 1,
                failed: 1,
                skipped: 1
            })
        );
        assert_eq!(conform("no json"), None);
    }
}
