//! Rules of the repository that no compiler checks.
//!
//! Each rule is a function from files to complaints; it changes no file. A complaint names file, line and rule.
//! Warnings do not fail.

mod census;
mod files;
mod imports;
mod layers;
mod lex;
mod paths;
mod rooms;
mod words;

use anyhow::Result;
use std::fmt;
use std::path::Path;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub file: String,
    /// 0: the whole file.
    pub line: usize,
    pub what: String,
    pub fails: bool,
}

impl Complaint {
    fn fail(file: &str, line: usize, what: impl Into<String>) -> Complaint {
        Complaint {
            file: file.to_owned(),
            line,
            what: what.into(),
            fails: true,
        }
    }
    fn warn(file: &str, line: usize, what: impl Into<String>) -> Complaint {
        Complaint {
            fails: false,
            ..Complaint::fail(file, line, what)
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.fails { "error" } else { "warning" };
        write!(f, "{}:{}: {kind}: {}", self.file, self.line, self.what)
    }
}

/// Prints every complaint; `Ok(true)` when none of them fails.
pub fn run(root: &Path) -> Result<bool> {
    let found = complaints(root)?;
    for c in &found {
        println!("{c}");
    }
    let fails = found.iter().filter(|c| c.fails).count();
    println!("tidy: {fails} errors, {} warnings", found.len() - fails);
    Ok(fails == 0)
}

fn complaints(root: &Path) -> Result<Vec<Complaint>> {
    let tree = files::read(root)?;
    let mut found = Vec::new();
    for file in &tree {
        found.extend(paths::machine(file));
        if file.path.ends_with(".rs") {
            found.extend(files::length(file));
            found.extend(files::purpose(file));
            found.extend(words::check(file));
            found.extend(paths::neighbours(file, root));
        }
        if file.path.ends_with("Cargo.toml") {
            found.extend(layers::check(file));
        }
        if file.path == "crates/cli/src/main.rs" {
            found.extend(paths::verbs(file, root));
        }
        if file.path == "ARCHITECTURE.md" {
            found.extend(paths::stale(file, root));
        }
    }
    found.extend(census::check(&tree));
    found.extend(rooms::check(&tree));
    if let Some(what) = crate::generate::stale(root) {
        found.push(Complaint::fail("docs", 0, what));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_path_in_architecture_exists() {
        let root = crate::root();
        let tree = super::files::read(&root).unwrap();
        let page = tree.iter().find(|f| f.path == "ARCHITECTURE.md").unwrap();
        assert_eq!(super::paths::stale(page, &root), []);
    }
}
