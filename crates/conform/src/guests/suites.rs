//! Test suites of well-known programs, from their Debian sources, divided into units of one test file.
//!
//! A suite is one shell script with three verbs, below `suites/`. It is called in the suite's folder as `prepare`, once
//! and natively: it makes what the tests need and prints the names of the units. In a guest's fresh directory it is
//! called as `stage UNIT`, natively, and as `run UNIT`, which is the part that is moved; both find the suite's folder
//! in `$SUITE`. `fetch` stores the folders.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::guests::fetch;
use crate::guests::guest::{Guest, How, Shows, Suite, matches};

/// dpkg-source, from Debian's dpkg-dev, unpacks sources.
const DPKG: (&str, &str) = ("dpkg-source", "dpkg-dev");

pub const SUITES: &[Suite] = &[
    Suite {
        name: "bash",
        about: "bash's own tests: its output for each must be what it is natively.",
        package: "bash",
        script: include_str!("../../suites/bash.sh"),
        shows: Shows::Everything,
        needs: &[DPKG, ("bash", "bash"), ("gcc", "gcc")],
    },
    Suite {
        name: "perl",
        about: "perl's core tests: the language, its operators, input and output, regular expressions.",
        package: "perl",
        script: include_str!("../../suites/perl.sh"),
        shows: Shows::Verdicts,
        needs: &[DPKG, ("perl", "perl")],
    },
    Suite {
        name: "python",
        about: "CPython's tests: the system, processes, threads, files, sockets, and parts of the language.",
        package: "python3.11",
        script: include_str!("../../suites/python.sh"),
        shows: Shows::Verdicts,
        needs: &[DPKG, ("python3.11", "python3.11")],
    },
    Suite {
        name: "tcl",
        about: "Tcl's tests: channels, events, processes, sockets, files, and the language.",
        package: "tcl8.6",
        script: include_str!("../../suites/tcl.sh"),
        shows: Shows::Verdicts,
        needs: &[DPKG, ("tclsh8.6", "tcl8.6")],
    },
    Suite {
        name: "gawk",
        about: "gawk's tests, by their first letter.",
        package: "gawk",
        script: include_str!("../../suites/gawk.sh"),
        shows: Shows::Verdicts,
        needs: &[DPKG, ("gawk", "gawk"), ("make", "make"), ("gcc", "gcc")],
    },
    Suite {
        name: "gzip",
        about: "gzip's tests of its program and scripts.",
        package: "gzip",
        script: include_str!("../../suites/gzip.sh"),
        shows: Shows::Verdicts,
        needs: &[DPKG, ("gzip", "gzip")],
    },
    Suite {
        name: "lua",
        about: "make -j2 builds Lua from its source; what it made runs.",
        package: "lua5.4",
        script: include_str!("../../suites/lua.sh"),
        shows: Shows::Everything,
        needs: &[DPKG, ("make", "make"), ("gcc", "gcc")],
    },
    Suite {
        name: "zstd",
        about: "zstd's tests of its program: threads, pipes, many files, errors.",
        package: "libzstd",
        script: include_str!("../../suites/zstd.sh"),
        shows: Shows::Verdicts,
        needs: &[
            DPKG,
            ("zstd", "zstd"),
            ("python3", "python3"),
            ("make", "make"),
            ("gcc", "gcc"),
        ],
    },
];

/// The guest for a name like `perl:op/fork.t`.
pub fn find(name: &str) -> Option<Guest> {
    let (suite, unit) = name.split_once(':')?;
    let suite = SUITES.iter().find(|s| s.name == suite)?;
    fetch::is_unit(unit).then(|| guest(suite, unit))
}

fn guest(suite: &'static Suite, unit: &str) -> Guest {
    Guest {
        name: format!("{}:{unit}", suite.name),
        about: suite.about.into(),
        how: How::Suite {
            suite,
            unit: unit.into(),
        },
        needs: suite.needs,
        stays: false,
        long: true,
    }
}

/// The selected guests, and the suites that are missing.
#[derive(Default)]
pub struct Chosen {
    pub units: Vec<Guest>,
    /// Suites that are not available here, and why.
    pub absent: Vec<(&'static str, String)>,
}

/// The units that match one of `wanted`: `all`, `perl`, `perl:op/fork.t`, `perl:op/*`. Fetches and
/// prepares their suites.
pub fn select(wanted: &[String]) -> Result<Chosen> {
    let mut chosen = Chosen::default();
    for suite in SUITES {
        let parts = parts(suite.name, wanted);
        if parts.is_empty() {
            continue;
        }
        let units = match fetch::units_of(suite) {
            Ok(units) => units,
            Err(cause) => {
                chosen.absent.push((suite.name, format!("{cause:#}")));
                continue;
            }
        };
        for part in &parts {
            if !units.iter().any(|unit| matches(part, unit)) {
                bail!(
                    "the suite {0} has no test {part}\nhint: armento conform --list --suite {0} names them",
                    suite.name
                );
            }
        }
        let fits = |unit: &&String| parts.iter().any(|part| matches(part, unit));
        let found = units.iter().filter(fits).map(|unit| guest(suite, unit));
        chosen.units.extend(found);
    }
    let names: BTreeSet<&str> = SUITES.iter().map(|s| s.name).collect();
    for want in wanted {
        let suite = want.split(':').next().unwrap_or_default();
        if suite != "all" && !names.contains(suite) {
            let known = names.iter().copied().collect::<Vec<_>>().join(", ");
            bail!("there is no suite named {suite}\nhint: all, or one of {known}");
        }
    }
    Ok(chosen)
}

/// The patterns for units of `suite` in `wanted`.
fn parts<'a>(suite: &str, wanted: &'a [String]) -> Vec<&'a str> {
    let part = |want: &'a String| match want.split_once(':') {
        Some((name, part)) => (name == suite).then_some(part),
        None => (want == suite || want == "all").then_some("*"),
    };
    wanted.iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_suites_and_units() {
        let wanted = ["perl:op/*".to_string(), "bash".into()];
        assert_eq!(parts("perl", &wanted), ["op/*"]);
        assert_eq!(parts("bash", &wanted), ["*"]);
        assert!(parts("tcl", &wanted).is_empty());
        assert_eq!(parts("tcl", &["all".to_string()]), ["*"]);
    }

    #[test]
    fn units_are_guests_of_a_suite() {
        let guest = find("perl:op/fork.t").expect("a unit by its form");
        assert_eq!(guest.name, "perl:op/fork.t");
        assert!(find("nobody:op/fork.t").is_none());
        assert!(find("perl:../../etc/passwd").is_none());
        assert!(find("perl").is_none());
    }

    #[test]
    fn an_unknown_suite_is_an_error() {
        assert!(select(&["nobody-of-this-name".into()]).is_err());
    }
}
