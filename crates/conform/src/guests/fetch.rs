//! The folders of test suites: fetched, checked, prepared once, and stored where any user can read them.
//!
//! Guests run as another user and in nodes with a separate /tmp, so the cache is beside that of compiled guests and not
//! below the build. It has one folder for each suite and version of its script.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::guests::compile::{forget_old, own_folder};
use crate::guests::guest::Suite;
use crate::sys;
use crate::tree::sha256;
use crate::user::{USER, missing};

const FETCH: &str = include_str!("../../suites/fetch.sh");
/// Fetching depends on the network, preparing may build.
const FETCH_S_MAX: u32 = 420;
const PREPARE_S_MAX: u32 = 420;
/// Limit of units in a suite.
const UNITS_MAX: usize = 2000;

/// Whether the name is valid for a unit: it becomes part of paths.
pub fn is_unit(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    (1..=80).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with(['/', '-'])
        && !name.contains("..")
}

/// Where `suite` is, or will be.
pub fn folder(suite: &Suite) -> PathBuf {
    let version = sha256(format!("{FETCH}{}{}", suite.package, suite.script).as_bytes());
    cache().join(format!("{}-{}", suite.name, &version[..16]))
}

fn cache() -> PathBuf {
    PathBuf::from(format!("/var/tmp/armento-suites-{}", sys::user()))
}

/// The names of the suite's units; fetches and prepares the suite unless that was done before.
pub fn units_of(suite: &Suite) -> Result<Vec<String>> {
    if let Some(package) = missing(suite.needs) {
        bail!("install the package {package}");
    }
    let folder = folder(suite);
    if !folder.join("units").is_file() {
        own_folder(&cache())?;
        forget_old(&cache());
        eprintln!("fetching and preparing the test suite of {}", suite.name);
        // Two sessions may prepare the same suite: each uses its own folder, and the first rename wins.
        let own = folder.with_extension(std::process::id().to_string());
        let made = make(suite, &own);
        if made.is_ok() && fs::rename(&own, &folder).is_err() && !folder.join("units").is_file() {
            bail!("cannot make {}", folder.display());
        }
        let _ = fs::remove_dir_all(&own);
        made?;
    }
    let units = fs::read_to_string(folder.join("units"))?;
    Ok(units.lines().map(str::to_string).collect())
}

/// Fetches into `folder` and prepares it.
fn make(suite: &Suite, folder: &Path) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    let words = [suite.package, &folder.display().to_string()];
    said(bounded(FETCH, "fetch", &words, FETCH_S_MAX).output()?)?;
    // The source is built as the user that runs it, and not changed afterwards.
    if sys::is_root() {
        own(folder, USER)?;
    }
    let mut prepare = bounded(suite.script, suite.name, &["prepare"], PREPARE_S_MAX);
    prepare
        .current_dir(folder)
        .env("SUITE", folder)
        .env("HOME", folder);
    if sys::is_root() {
        prepare.uid(USER).gid(USER);
    }
    let units = units(&said(prepare.output()?)?)?;
    if sys::is_root() {
        own(folder, 0)?;
    }
    fs::write(folder.join("units"), units.join("\n") + "\n")?;
    Ok(())
}

/// A shell script under timeout(1), which ends it and its children.
pub fn bounded(script: &str, name: &str, words: &[&str], seconds_max: u32) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &seconds_max.to_string(), "/bin/sh", "-c"])
        .args([script, name])
        .args(words)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    command
}

/// Standard output, or the last line of standard error.
fn said(done: Output) -> Result<String> {
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let last = text.lines().rev().find(|line| !line.is_empty());
        bail!("{} ({})", last.unwrap_or("no message"), done.status);
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Parses the output of `prepare` into names of units.
fn units(text: &str) -> Result<Vec<String>> {
    let names: Vec<String> = text.lines().map(|line| line.trim().to_string()).collect();
    if let Some(bad) = names.iter().find(|name| !is_unit(name)) {
        bail!("{bad:?} is no name of a test");
    }
    if names.is_empty() || names.len() > UNITS_MAX {
        bail!("{} tests, where 1 to {UNITS_MAX} are expected", names.len());
    }
    Ok(names)
}

/// Gives everything below `folder` to `user`.
fn own(folder: &Path, user: u32) -> Result<()> {
    let done = Command::new("chown")
        .args(["-R", "-h", &format!("{user}:{user}")])
        .arg(folder)
        .status()?;
    if !done.success() {
        bail!("cannot hand {} over ({done})", folder.display());
    }
    chown(folder, Some(user), Some(user))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_plain_names() {
        for (name, good) in [
            ("op/fork.t", true),
            ("array-at-star", true),
            ("", false),
            ("/etc/passwd", false),
            ("a/../../b", false),
            ("-rf", false),
            ("a b", false),
        ] {
            assert_eq!(is_unit(name), good, "{name}");
        }
        assert_eq!(units("a.t\nb.t\n").expect("two"), ["a.t", "b.t"]);
        assert!(units("").is_err());
        assert!(units("a b\n").is_err());
        assert!(units(&"a\n".repeat(UNITS_MAX + 1)).is_err());
    }
}
