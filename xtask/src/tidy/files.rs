//! Reads the tree; checks file lengths, and the description at the top of every crate.

use super::Complaint;
use anyhow::{Context, Result};
use std::path::Path;

/// A text file of the checkout.
#[derive(Debug)]
pub struct File {
    /// Below the root, with `/`.
    pub path: String,
    pub text: String,
}

/// Not checked: builds, version control, directories of other tools.
const SKIP: &[&str] = &["target", ".git", "node_modules"];
const LINES_WARN: usize = 300;
const LINES_MAX: usize = 800;
/// A shorter purpose only repeats the name.
const PURPOSE_MIN: usize = 40;

/// Every text file below `root`, sorted by path. Files that are not UTF-8 are left out.
pub fn read(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, below: &str, found: &mut Vec<File>) -> Result<()> {
    let dir = root.join(below);
    let entries = std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let other_build = below.is_empty() && name.starts_with("target-");
            if !SKIP.contains(&name.as_str()) && !other_build {
                walk(root, &path, found)?;
            }
        } else if kind.is_file()
            // In a linked work tree `.git` is a file.
            && !SKIP.contains(&name.as_str())
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            found.push(File { path, text });
        }
    }
    Ok(())
}

pub fn length(file: &File) -> Option<Complaint> {
    let lines = file.text.lines().count();
    let what = format!("{lines} lines; aim below {LINES_WARN}, never above {LINES_MAX}");
    if lines > LINES_MAX {
        Some(Complaint::fail(&file.path, lines, what))
    } else if lines > LINES_WARN {
        Some(Complaint::warn(&file.path, lines, what))
    } else {
        None
    }
}

/// `lib.rs` and `main.rs` of a crate begin with the purpose of the crate.
pub fn purpose(file: &File) -> Option<Complaint> {
    let mut parts = file.path.rsplit('/');
    let root_module = matches!(parts.next(), Some("lib.rs" | "main.rs"));
    if !root_module || parts.next() != Some("src") {
        return None;
    }
    let first = file.text.lines().next().unwrap_or_default();
    let said = first.strip_prefix("//!").map_or(0, str::len);
    let what = "open with `//!` and the purpose";
    match said {
        PURPOSE_MIN.. => None,
        // A crate without a first module yet.
        _ if file.text.lines().count() <= 1 => Some(Complaint::warn(&file.path, 1, what)),
        _ => Some(Complaint::fail(&file.path, 1, what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn lengths_warn_then_fail() {
        let check = |lines: usize, fails: Option<bool>| {
            let f = file("a.rs", &"x\n".repeat(lines));
            assert_eq!(length(&f).map(|c| c.fails), fails, "{lines}");
        };
        check(300, None);
        check(301, Some(false));
        check(800, Some(false));
        check(801, Some(true));
    }

    #[test]
    fn crates_describe_their_purpose() {
        let check = |path: &str, text: &str, bad: bool| {
            assert_eq!(purpose(&file(path, text)).is_some(), bad, "{path}: {text}");
        };
        check("crates/a/src/lib.rs", "//! a\nmod b;\n", true);
        check(
            "crates/a/src/lib.rs",
            "//! Turns one thing into another thing, without I/O.\n",
            false,
        );
        check("crates/a/src/other.rs", "", false);
    }
}
