//! Consistency of the table itself. That its files, reasons and guests exist is checked by `cargo xtask tidy`.

use armento_census::{
    Fate, MISSING_ALLOWED, Name, UNTESTED_ALLOWED, missing_rows, page, rows, untested_rows,
};
use std::collections::BTreeSet;

#[test]
fn ids_are_unique_words() {
    let mut seen = BTreeSet::new();
    for r in rows() {
        assert!(seen.insert(r.id), "{} twice", r.id);
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(r.id.chars().all(word), "{}", r.id);
        assert!(!r.what.is_empty(), "{}", r.id);
    }
}

#[test]
fn each_name_is_in_one_row() {
    let mut seen = BTreeSet::new();
    for r in rows() {
        for n in r.names {
            // A call may change several pieces of state.
            if !matches!(n, Name::Call(_)) {
                assert!(seen.insert(n), "{n:?} again in {}", r.id);
            }
        }
    }
}

#[test]
fn defects_and_untested_rows_never_increase() {
    let check = |what: &str, n: usize, allowed: usize| {
        assert!(
            n <= allowed,
            "{n} {what} rows, {allowed} are allowed: fix one, or write the guest"
        );
        assert!(
            n >= allowed,
            "{n} {what} rows, {allowed} are allowed: lower the number"
        );
    };
    check("missing", missing_rows(), MISSING_ALLOWED);
    check("untested", untested_rows(), UNTESTED_ALLOWED);
}

#[test]
fn reasons_are_explained() {
    for r in rows() {
        if let Fate::Invisible { why } | Fate::Manual { why, .. } | Fate::Missing { why } = r.fate {
            assert!(why.len() >= 5, "{} is too short", r.id);
        }
    }
}

#[test]
fn page_in_the_tree_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-census.md");
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == page(),
        "docs/state-census.md is stale; run cargo xtask gen"
    );
}
