//! All guests: C sources carried in the binary, real programs, terminal scripts.

use anyhow::{Result, bail};

use crate::real::{REAL, Real};
use crate::terminal::{SCRIPTS, Script};

mod sources {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}

#[derive(Clone, Copy)]
pub enum How {
    /// A C file of `guests/`.
    C { source: &'static str },
    /// A command line for `sh -c`.
    Shell { line: &'static str },
    /// A program on a terminal, with keys to press.
    Terminal { script: &'static Script },
}

#[derive(Clone)]
pub struct Guest {
    pub name: &'static str,
    pub about: String,
    pub how: How,
    /// Program and the Debian package that has it.
    pub needs: &'static [(&'static str, &'static str)],
    /// It may never leave home, by design; it must still be right.
    pub stays: bool,
}

/// What a C guest needs.
const COMPILER: &[(&str, &str)] = &[("gcc", "gcc")];
/// Marks a C guest that is expected to stay home; followed by the reason.
const STAYS: &str = "Stays home:";

/// Headers that guests share: name, text.
pub fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    sources::FILES
        .iter()
        .copied()
        .filter(|(name, _)| name.ends_with(".h"))
}

pub fn all() -> Vec<Guest> {
    let c = sources::FILES.iter().filter_map(|&(file, source)| {
        let name = file.strip_suffix(".c")?;
        Some(Guest {
            name,
            about: first_comment(source),
            how: How::C { source },
            needs: COMPILER,
            stays: source.contains(STAYS),
        })
    });
    let real = REAL.iter().map(
        |&Real {
             name,
             about,
             line,
             needs,
         }| Guest {
            name,
            about: about.into(),
            how: How::Shell { line },
            needs,
            stays: false,
        },
    );
    let terminal = SCRIPTS.iter().map(|script| Guest {
        name: script.name,
        about: script.about.into(),
        how: How::Terminal { script },
        needs: script.needs,
        stays: false,
    });
    c.chain(real).chain(terminal).collect()
}

pub fn find(name: &str) -> Option<Guest> {
    all().into_iter().find(|guest| guest.name == name)
}

/// The guests that match one of `wanted` (all, when it is empty), in catalogue order.
pub fn select(wanted: &[String]) -> Result<Vec<Guest>> {
    let guests = all();
    if wanted.is_empty() {
        return Ok(guests);
    }
    for want in wanted {
        if !guests.iter().any(|guest| matches(want, guest.name)) {
            bail!("there is no guest named {want}\nhint: armento conform --list names them");
        }
    }
    Ok(guests
        .into_iter()
        .filter(|g| wanted.iter().any(|want| matches(want, g.name)))
        .collect())
}

fn matches(want: &str, name: &str) -> bool {
    match want.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => want == name,
    }
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
        let mut names: Vec<_> = all().iter().map(|guest| guest.name).collect();
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
    fn every_guest_says_what_it_proves() {
        for guest in all() {
            assert!(
                guest.about.len() > 20,
                "{} starts without a comment",
                guest.name
            );
        }
    }

    #[test]
    fn a_star_matches_the_rest() {
        assert!(matches("time*", "timers"));
        assert!(!matches("time", "timers"));
        assert!(select(&["nobody-of-this-name".into()]).is_err());
    }
}
