//! The commands of the manual, run as they are printed: every line `NODE$ COMMAND` of a block of the language `console`.

use super::Farm;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");

/// `(node, command)` of each line.
fn commands(page: &str) -> Vec<(String, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = language == "console";
        } else if inside && let Some((node, command)) = line.split_once("$ ") {
            found.push((node.to_owned(), command.to_owned()));
        }
    }
    found
}

pub fn printed_commands_succeed(farm: &Farm) {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual");
    let kept =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("manual-{}", std::process::id()));
    let mut names: Vec<_> = fs::read_dir(pages)
        .expect("the manual")
        .map(|entry| entry.expect("a page").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    names.sort();
    let mut ran = 0;
    for path in names {
        let page = fs::read_to_string(&path).expect("a page");
        for (node, command) in commands(&page) {
            // Programs in the background keep standard output: a file, so that their end is not waited for.
            let out = File::create(&kept).expect("a file");
            let status = Command::new(ARMENTO)
                .args(["lab", "exec", "--name", &farm.name, &node, "--"])
                .args(["sh", "-c", &format!("cd /tmp; {command}")])
                .stdin(Stdio::null())
                .stdout(out.try_clone().expect("a copy"))
                .stderr(out)
                .status()
                .expect("armento runs");
            let said = fs::read_to_string(&kept).unwrap_or_default();
            assert!(
                status.success(),
                "{}: {node}$ {command}: {status}: {said}",
                path.display()
            );
            ran += 1;
        }
    }
    let _ = fs::remove_file(&kept);
    assert!(ran >= 15, "{ran} commands");
}
