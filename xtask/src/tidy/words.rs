//! Forbidden words, unsafe code and unfinished work in Rust files.

use super::Complaint;
use super::files::File;
use super::lex::{self, Line};

/// Forbidden in code or as a name, with the remedy.
const MARKS: &[(&str, &str)] = &[
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
    (
        "#[ignore",
        "repair the test; a test that lacks a privilege prints `skipped: …`",
    ),
    ("allow(dead_code", "remove the dead code"),
];
/// One word, one meaning: use source, target, home, node.
const WORDS: &[&str] = &["master", "slave", "worker", "src", "dst"];
/// Names given by others.
const FOREIGN: &[&str] = &["worker_threads", "git master"];
/// Lines above an `unsafe` block that may contain its `SAFETY:`.
const SAFETY_REACH: usize = 12;

pub fn check(file: &File) -> Vec<Complaint> {
    let lines = lex::lines(&file.text);
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let mut say = |what: String| found.push(Complaint::fail(&file.path, i + 1, what));
        for (mark, instead) in MARKS {
            if line.code.contains(mark) {
                say(format!("`{mark}`: {instead}"));
            }
        }
        if line.comment.contains("FIXME") {
            say("unfinished work: finish it, or open an issue".into());
        }
        if let Some(word) = forbidden(line) {
            say(format!(
                "the word `{word}`: say source, target, home or node"
            ));
        }
        if let Some(what) = unsafe_rules(file, &lines, i) {
            say(what);
        }
    }
    found
}

/// A word of [`WORDS`] as a name or in a comment. A line with `KERNEL:` quotes names of the kernel.
fn forbidden(line: &Line) -> Option<&'static str> {
    if line.comment.contains("KERNEL:") {
        return None;
    }
    let mut text = format!("{} {}", line.code, line.comment);
    for name in FOREIGN {
        text = text.replace(name, "");
    }
    // Parts of a path are no words: `crates/lab/src/lib.rs`.
    let words = text
        .split_whitespace()
        .filter(|w| !w.contains('/') || w.starts_with("//"));
    let names = words.flat_map(|w| w.split(|c: char| !c.is_alphanumeric()));
    let names: Vec<String> = names.map(str::to_lowercase).collect();
    WORDS
        .iter()
        .find(|w| names.iter().any(|n| n == *w))
        .copied()
}

/// `unsafe` lives in `sys.rs`, each block below a `SAFETY:` comment.
fn unsafe_rules(file: &File, lines: &[Line], i: usize) -> Option<String> {
    let mut words = lines[i]
        .code
        .split(|c: char| !(c.is_alphanumeric() || c == '_'));
    if !words.any(|w| w == "unsafe") || lines[i].code.contains("#[unsafe(") {
        return None;
    }
    if !file.path.ends_with("/sys.rs") {
        return Some("unsafe outside sys.rs".into());
    }
    let block = lines[i].code.contains("unsafe {") || lines[i].code.contains("unsafe impl");
    let from = i.saturating_sub(SAFETY_REACH);
    let said = lines[from..=i]
        .iter()
        .any(|l| l.comment.contains("SAFETY:"));
    (block && !said).then(|| "an unsafe block without a SAFETY: comment".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str) -> usize {
        check(&File {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn words_and_marks() {
        let count = |text: &str, n: usize| assert_eq!(check_file("a/b.rs", text), n, "{text}");
        count("let src_addr = 1;", 1);
        count("// the master node", 1);
        count("// see crates/lab/src/lib.rs", 0);
        count("f(\"src\");", 0);
        count("let c = uffdio.dst; // KERNEL: its field", 0);
        count("fn source() {} fn mastery() {}", 0);
        count("todo!()", 1);
        count("// FIXME later", 1);
    }

    #[test]
    fn unsafe_is_confined_and_explained() {
        let count =
            |path: &str, text: &str, n: usize| assert_eq!(check_file(path, text), n, "{text}");
        count("a/b.rs", "unsafe { f() }", 1);
        count("a/sys.rs", "unsafe { f() }", 1);
        count("a/sys.rs", "// SAFETY: no pointers\nunsafe { f() }", 0);
        count("a/b.rs", "let unsafety = 1;", 0);
    }
}
