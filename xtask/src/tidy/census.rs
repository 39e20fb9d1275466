//! The census of a process' state: files, reasons, guests and tests that its rows name exist, and the number of defects
//! never increases.

use super::Complaint;
use super::files::File;
use armento_census::{Fate, MISSING_ALLOWED, Row, UNTESTED_ALLOWED};
use armento_model::Stay;
use std::collections::BTreeSet;

const WHERE: &str = "crates/census/src/lib.rs";
/// Extensions of a guest's source file.
const GUESTS: &[&str] = &["c", "cc", "go"];

/// Files, reasons, guests and tests of the tree.
struct Known<'a> {
    files: BTreeSet<&'a str>,
    tests: BTreeSet<&'a str>,
    reasons: BTreeSet<String>,
}

pub fn check(tree: &[File]) -> Vec<Complaint> {
    let tests = tree.iter().filter(|f| f.path.ends_with(".rs"));
    let known = Known {
        files: tree.iter().map(|f| f.path.as_str()).collect(),
        tests: tests.flat_map(|f| functions_of_tests(&f.text)).collect(),
        reasons: Stay::ALL.iter().map(|s| format!("{s:?}")).collect(),
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut missing = 0;
    let mut untested = 0;
    for row in armento_census::rows() {
        found.extend(wrong(row, &known));
        if !seen.insert(row.id) {
            found.push(fail(row, "another row has the same id"));
        }
        missing += usize::from(matches!(row.fate, Fate::Missing { .. }));
        untested += usize::from(row.untested());
    }
    found.extend(more("missing", missing, MISSING_ALLOWED, "fix one"));
    found.extend(more(
        "untested",
        untested,
        UNTESTED_ALLOWED,
        "write the guest",
    ));
    found
}

fn fail(row: &Row, what: &str) -> Complaint {
    Complaint::fail(WHERE, 0, format!("row {}: {what}", row.id))
}

fn more(what: &str, n: usize, allowed: usize, instead: &str) -> Option<Complaint> {
    let said = format!("{n} {what} rows, {allowed} are allowed: {instead}");
    (n > allowed).then(|| Complaint::fail(WHERE, 0, said))
}

/// Files, reasons, guests and tests that the row names and that do not exist.
fn wrong(row: &Row, known: &Known) -> Vec<Complaint> {
    let mut found = Vec::new();
    if let Some(file) = row.fate.file()
        && !known.files.contains(file)
    {
        found.push(fail(row, &format!("{file} does not exist")));
    }
    if let Fate::StaysHome { reason, .. } = row.fate
        && !known.reasons.contains(reason)
    {
        let what = format!("there is no reason to stay {reason}");
        found.push(fail(row, &what));
    }
    for name in row.shown_by {
        let guest = |end: &&str| known.files.contains(&*format!("guests/{name}.{end}"));
        if !GUESTS.iter().any(guest) && !known.tests.contains(name) {
            let what = format!("there is no guest and no test {name}");
            found.push(fail(row, &what));
        }
    }
    found
}

/// Names of functions below `#[test]`.
fn functions_of_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    text.lines().map(str::trim).filter_map(move |line| {
        let name = line.strip_prefix("fn ").and_then(|l| l.split('(').next());
        let test = marked;
        marked = line == "#[test]" || marked && line.starts_with("#[");
        name.filter(|_| test)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_census::Owner;

    fn row(fate: Fate, shown_by: &'static [&'static str]) -> Row {
        Row {
            id: "some",
            what: "something",
            of: Owner::Thread,
            names: &[],
            fate,
            shown_by,
            since: None,
        }
    }

    #[test]
    fn rows_name_existing_items() {
        let known = Known {
            files: ["a.rs", "guests/signals.c"].into(),
            tests: ["it_moves"].into(),
            reasons: ["Traced".to_owned()].into(),
        };
        let count = |fate: Fate, shown: &'static [&'static str], n: usize| {
            assert_eq!(wrong(&row(fate, shown), &known).len(), n, "{fate:?}");
        };
        let stays = |reason| Fate::StaysHome {
            reason,
            file: "a.rs",
        };
        count(Fate::Carried { file: "a.rs" }, &["signals", "it_moves"], 0);
        count(Fate::Carried { file: "b.rs" }, &["signal"], 2);
        count(stays("Traced"), &[], 0);
        count(stays("Tired"), &[], 1);
        count(Fate::Missing { why: "" }, &[], 0);
    }

    #[test]
    fn tests_are_found_by_their_attribute() {
        let text =
            "#[test]\n#[should_panic]\nfn one() {\n}\nfn two() {}\n    #[test]\n    fn three() {\n";
        let found: Vec<&str> = functions_of_tests(text).collect();
        assert_eq!(found, ["one", "three"]);
    }

    #[test]
    fn exceeded_limits_are_reported() {
        assert!(more("missing", 3, 3, "fix one").is_none());
        assert!(more("missing", 4, 3, "fix one").is_some_and(|c| c.fails));
    }
}
