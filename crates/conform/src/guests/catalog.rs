//! All guests: C sources embedded in the binary, real programs, terminal scripts, and the user's own scripts.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::guests::editors::EDITORS;
use crate::guests::guest::{Guest, How, matches};
use crate::guests::programs::{LONG, PROGRAMS};
use crate::guests::real::{REAL, Real};
use crate::guests::sources;
use crate::guests::suites;
use crate::guests::terminal::SCRIPTS;

/// The compilers that guests need.
const COMPILER: &[(&str, &str)] = &[("gcc", "gcc")];
const GO_COMPILER: &[(&str, &str)] = &[("go", "golang-go")];
const CXX_COMPILER: &[(&str, &str)] = &[("g++", "g++")];
/// Marks a C guest that is expected to stay home; followed by the reason.
const STAYS: &str = "Stays home:";

pub fn all() -> Vec<Guest> {
    let c = sources::FILES.iter().filter_map(|&(file, source)| {
        let (name, needs) = match file.rsplit_once('.')? {
            (name, "c") => (name, COMPILER),
            (name, "cc") => (name, CXX_COMPILER),
            (name, "go") => (name, GO_COMPILER),
            _ => return None,
        };
        Some(Guest {
            name: name.into(),
            about: first_comment(source),
            how: How::Source { file, source },
            needs,
            stays: source.contains(STAYS),
            // Go builds its library first.
            long: file.ends_with(".go"),
        })
    });
    let usual = REAL.iter().chain(PROGRAMS).map(|real| program(real, false));
    let long = LONG.iter().map(|real| program(real, true));
    let terminal = SCRIPTS.iter().chain(EDITORS).map(|script| Guest {
        name: script.name.into(),
        about: script.about.into(),
        how: How::Terminal { script },
        needs: script.needs,
        stays: false,
        long: false,
    });
    c.chain(usual).chain(terminal).chain(long).collect()
}

fn program(real: &Real, long: bool) -> Guest {
    Guest {
        name: real.name.into(),
        about: real.about.into(),
        how: How::Shell {
            line: real.line.into(),
        },
        needs: real.needs,
        stays: false,
        long,
    }
}

/// Longest user script, in bytes: it is passed as one argument of `sh -c`. KERNEL: execve(2), MAX_ARG_STRLEN is 128
/// KiB.
const SCRIPT_MAX: usize = 100 << 10;

/// A user's own shell script, by its absolute path. Its text is run: the guest's user need not be able to read the
/// file.
fn own(path: &Path) -> Result<Guest> {
    let name = path.to_str().context("its name is not UTF-8")?;
    script(name, std::fs::read_to_string(path)?)
}

fn script(name: &str, line: String) -> Result<Guest> {
    ensure!(
        line.len() <= SCRIPT_MAX && !line.contains('\0'),
        "it is no shell script of at most {} KiB",
        SCRIPT_MAX >> 10
    );
    Ok(Guest {
        name: name.into(),
        about: "A script of your own.".into(),
        how: How::Shell { line: line.into() },
        needs: &[],
        stays: false,
        long: true,
    })
}

fn is_path(name: &str) -> bool {
    !name.contains(':') && name.contains('/')
}

/// `text`: that of a user's own script, whose path may mean another file on the node where it runs.
pub fn find(name: &str, text: Option<&str>) -> Option<Guest> {
    if let Some(text) = text {
        return script(name, text.to_owned()).ok();
    }
    suites::find(name).or_else(|| all().into_iter().find(|guest| guest.name == name))
}

/// The guests that match one of `wanted`, in catalogue order; if it is empty all guests, including those that take long
/// only if `long`.
pub fn select(wanted: &[String], long: bool) -> Result<Vec<Guest>> {
    let mut guests = all();
    if wanted.is_empty() {
        guests.retain(|guest| long || !guest.long);
        return Ok(guests);
    }
    let (paths, wanted): (Vec<&String>, Vec<&String>) = wanted.iter().partition(|w| is_path(w));
    for want in &wanted {
        if !guests.iter().any(|guest| matches(want, &guest.name)) {
            bail!(
                "there is no guest named {want}\nhint: armento conform --list names them; \
                 a script of your own is given by its path, ./{want}"
            );
        }
    }
    guests.retain(|g| wanted.iter().any(|want| matches(want, &g.name)));
    for path in paths {
        let script = std::fs::canonicalize(path).map_err(Into::into);
        let script = script.and_then(|path| own(&path));
        guests.push(script.with_context(|| format!("cannot run the script {path}"))?);
    }
    Ok(guests)
}

/// The text of the comment a source starts with, on one line.
fn first_comment(source: &str) -> String {
    let inside = source
        .strip_prefix("/*")
        .and_then(|rest| rest.split("*/").next())
        .unwrap_or("");
    let words: Vec<&str> = inside
        .lines()
        .flat_map(|line| line.trim_start_matches(" *").split_whitespace())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        let mut names: Vec<_> = all().into_iter().map(|guest| guest.name).collect();
        assert!(
            names
                .iter()
                .all(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
        );
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_guest_has_a_description() {
        for guest in all() {
            assert!(
                guest.about.len() > 20,
                "{} starts without a comment",
                guest.name
            );
        }
    }

    #[test]
    fn long_guests_run_only_on_request() {
        let has =
            |guests: Result<Vec<Guest>>| guests.expect("known").iter().any(|g| g.name == "java");
        assert!(!has(select(&[], false)));
        assert!(has(select(&[], true)));
        assert!(has(select(&["java".into()], false)));
    }

    #[test]
    fn path_names_a_users_script() {
        let path = std::env::temp_dir().join(format!("own-{}.sh", std::process::id()));
        std::fs::write(&path, "echo mine").expect("written");
        let name = path.to_str().expect("UTF-8").to_string();
        let chosen = select(&[name.clone(), "pipes".into()], false).expect("known");
        let names: Vec<&str> = chosen.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["pipes", &name]);
        assert!(matches!(&chosen[1].how, How::Shell { line } if line == "echo mine"));
        std::fs::remove_file(&path).expect("removed");
        assert!(select(&[name], false).is_err());
    }

    #[test]
    fn trailing_star_matches_any_rest() {
        assert!(matches("time*", "timers"));
        assert!(!matches("time", "timers"));
        assert!(select(&["nobody-of-this-name".into()], false).is_err());
    }
}
