//! Paths: those in `ARCHITECTURE.md` exist, and none is specific to one machine.

use super::Complaint;
use super::files::File;
use std::path::Path;

/// Prefixes of absolute paths that exist on no user's machine, in two halves so that this file does not complain about
/// itself.
const WORKPLACES: &[(&str, &str)] = &[("/wor", "k/"), ("/wor", "kspace/")];

/// Machine-specific paths in a committed file.
pub fn machine(file: &File) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        for (a, b) in WORKPLACES {
            let path = format!("{a}{b}");
            let named = line
                .match_indices(&path)
                .any(|(at, _)| starts_path(line, at));
            if named {
                found.push(Complaint::fail(&file.path, i + 1, "a path of one machine"));
            }
        }
    }
    found
}

/// A slash begins a path unless it follows another part of a path.
fn starts_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*}".contains(c))
}

/// Paths between backticks that look like files or directories of the tree and do not exist.
pub fn stale(file: &File, root: &Path) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        for path in line.split('`').skip(1).step_by(2).filter(|p| is_path(p)) {
            if !root.join(path).exists() {
                found.push(Complaint::fail(
                    &file.path,
                    i + 1,
                    format!("{path} does not exist"),
                ));
            }
        }
    }
    found
}

/// Files named in the `From:` and `Next:` lines of a file that do not exist.
pub fn neighbours(file: &File, root: &Path) -> Vec<Complaint> {
    let head = file.text.lines().take_while(|l| l.starts_with("//!"));
    let named = head
        .enumerate()
        .filter(|(_, l)| l.contains("From:") || l.contains("Next:"));
    let mut found = Vec::new();
    for (i, line) in named {
        let paths = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|p| p.ends_with(".rs"));
        for path in paths.filter(|p| !p.contains('*')) {
            let beside = Path::new(&file.path).with_file_name(path);
            let there = [root.join("crates").join(path), root.join(beside)]
                .iter()
                .any(|p| p.exists());
            if !there {
                let what = format!("{path}, the neighbour it names, does not exist");
                found.push(Complaint::warn(&file.path, i + 1, what));
            }
        }
    }
    found
}

/// `MpiEnv` as clap says it: `mpi-env`.
fn kebab(name: &str) -> String {
    let mut word = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(c.to_lowercase());
    }
    word
}

/// Verbs of the command line (`Verb` in `crates/cli/src/main.rs`) without a page in the manual.
pub fn verbs(main: &File, root: &Path) -> Vec<Complaint> {
    let lines = main
        .text
        .lines()
        .skip_while(|l| !l.starts_with("enum Verb"));
    let verbs = lines.take_while(|l| !l.starts_with('}')).filter_map(|l| {
        let name = l.strip_prefix("    ")?.split(['(', ' ', ',']).next()?;
        name.starts_with(char::is_uppercase).then(|| kebab(name))
    });
    let page = |verb: &String| root.join(format!("docs/manual/{verb}.md"));
    let missing = verbs.filter(|v| !page(v).exists());
    missing
        .map(|v| Complaint::fail(&main.path, 0, format!("`{v}` has no page in docs/manual")))
        .collect()
}

fn is_path(p: &str) -> bool {
    const TOPS: &[&str] = &[
        "crates/", "docs/", "guests/", "papers/", "xtask/", "fuzz/", "scripts/", ".ci/",
    ];
    TOPS.iter().any(|t| p.starts_with(t)) && !p.contains([' ', '*'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_paths_are_found() {
        let text = "| step | `xtask/src/main.rs`, `crates/none/src/lib.rs` | `armento run` |";
        let f = File {
            path: "ARCHITECTURE.md".into(),
            text: text.into(),
        };
        let found = stale(&f, &crate::root());
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("crates/none"));
    }

    #[test]
    fn verbs_need_a_page() {
        let text = "enum Verb {\n    /// One\n    Run(run::Args),\n    Juggle,\n}\nenum Other {\n    X,\n}";
        let f = File {
            path: "main.rs".into(),
            text: text.into(),
        };
        let found = verbs(&f, &crate::root());
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("`juggle`"));
    }

    #[test]
    fn machines_paths_are_found() {
        let count = |text: String, n: usize| {
            let f = File {
                path: "a.md".into(),
                text,
            };
            assert_eq!(machine(&f).len(), n, "{}", f.text);
        };
        count(format!("see {}k/main", "/wor"), 1);
        count(format!("home{}k/main", "/wor"), 0);
    }
}
