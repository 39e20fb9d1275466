//! The dashboard: its pages are built from their text, and on a lab farm Chromium sees what happens and makes it happen.

#[path = "web/hosts.rs"]
mod hosts;
mod lab;

use lab::Farm;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The pages' text, and the test of them.
fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// The tools of `web/package-lock.json`; prints why the test is skipped where they cannot be had.
fn tools(test: &str) -> bool {
    static HAS: OnceLock<Result<(), String>> = OnceLock::new();
    let has = HAS.get_or_init(|| {
        let pages = pages();
        let lock = pages.join("package-lock.json");
        let installed = pages.join("node_modules/.package-lock.json");
        let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified());
        if let (Ok(lock), Ok(installed)) = (time(&lock), time(&installed))
            && installed >= lock
        {
            return Ok(());
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        let done = npm.current_dir(pages).stdin(Stdio::null()).output();
        match done {
            Err(e) => Err(format!("npm ({e})")),
            Ok(out) if out.status.success() => Ok(()),
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                Err(format!(
                    "npm's registry: {}",
                    said.lines().next().unwrap_or_default()
                ))
            }
        }
    });
    if let Err(why) = has {
        println!("skipped: {test} needs {why}");
    }
    has.is_ok()
}

#[test]
fn pages_in_the_tree_are_built_from_their_text() {
    if !tools("the build of the dashboard's pages") {
        return;
    }
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let _ = fs::remove_dir_all(&out);
    let built = Command::new("node")
        .args([
            "node_modules/vite/bin/vite.js",
            "build",
            "--emptyOutDir",
            "--outDir",
        ])
        .arg(&out)
        .current_dir(pages())
        .stdin(Stdio::null())
        .output()
        .expect("node runs");
    assert!(built.status.success(), "{built:?}");
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).expect("a directory");
        let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let dist = pages().join("dist");
    assert_eq!(names(&out), names(&dist), "run `npm run build` in web/");
    for name in names(&out) {
        let same = fs::read(out.join(&name)).ok() == fs::read(dist.join(&name)).ok();
        assert!(
            same,
            "web/dist/{} is stale: run `npm run build` in web/",
            name.display()
        );
    }
}

#[test]
fn browser_sees_and_steers_a_lab_farm() {
    let what = "the dashboard in a browser";
    if !Path::new("/usr/bin/chromium").exists() {
        println!("skipped: {what} needs Chromium (Debian: chromium)");
        return;
    }
    if !tools(what) {
        return;
    }
    let Some(farm) = Farm::up("web", None) else {
        return;
    };
    let passed = drive(&farm);
    assert!(passed.len() >= 13, "{passed:?}");
}

#[test]
fn users_act_only_for_themselves() {
    if let Some(farm) = Farm::up("webuser", None) {
        hosts::users_are_kept_apart(&farm);
        hosts::addresses_beyond_loopback_have_tls(&farm);
    }
}

#[test]
fn silent_connections_do_not_shut_pages_out() {
    if !lab::long() {
        return;
    }
    if let Some(farm) = Farm::up("webfull", None) {
        hosts::silent_connections_are_closed(&farm);
    }
}

/// Runs `web/test/farm.mjs` on n1, and does what it asks for; returns what it has proved.
fn drive(farm: &Farm) -> Vec<Value> {
    let script = pages()
        .join("test/farm.mjs")
        .canonicalize()
        .expect("the script");
    farm.sh("n1", "mkdir -p /tmp/shots");
    let mut child = Command::new(env!("CARGO_BIN_EXE_armento"))
        .args(["lab", "exec", "--name", &farm.name, "n1", "--", "node"])
        .arg(script)
        .arg("/tmp/shots")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("armento runs");
    let mut to = child.stdin.take().expect("a pipe");
    let from = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut passed = None;
    for line in from.lines() {
        let line = line.expect("a line");
        let asked: Value = serde_json::from_str(&line).expect(&line);
        if let Some(facts) = asked["passed"].as_array() {
            passed = Some(facts.clone());
            continue;
        }
        let done = match (asked["daemon"].as_str(), asked["sh"].as_str()) {
            (Some(node), _) => {
                farm.daemon(node);
                json!({ "rc": 0, "out": "" })
            }
            (None, Some(node)) => {
                let out = farm.run(node, asked["script"].as_str().unwrap_or_default());
                let said =
                    String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
                json!({ "rc": out.status.code(), "out": said })
            }
            _ => panic!("{line}"),
        };
        writeln!(to, "{done}").expect("it listens");
    }
    let out = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    keep_pictures(farm);
    passed.unwrap_or_else(|| panic!("{said}"))
}

/// Below the build directory, to be looked at.
fn keep_pictures(farm: &Farm) {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    let _ = fs::create_dir_all(&to);
    for name in farm.sh("n1", "ls /tmp/shots").lines() {
        let shot = farm.run("n1", &format!("cat /tmp/shots/{name}"));
        let _ = fs::write(to.join(name), shot.stdout);
    }
}
