//! Failpoints: places where a test kills or freezes one side of a move.
//!
//! From: `cli/tests/faults.rs`, `conform/src/faults/run.rs`. `phase.rs` lists all failpoints. They are active only if
//! `ARMENTO_FAULTS` names a directory. A file there, or in its folder of the process's tree, named as the failpoint,
//! contains what is to happen once: `kill`, `freeze SECONDS`, or `stall SECONDS` (only for the thread that passes it).
//! A file named [`ANY`] acts at any place in the process. The failpoints passed are recorded in the folder of the tree, each
//! with its time (CLOCK_MONOTONIC, ms).
//! If `ARMENTO_LAPS` is set, each failpoint is logged with its time, which shows what a pause consists of.

use crate::phase::Failpoint;
use armento_model::TreeId;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// A fault at no particular failpoint.
pub const ANY: &str = "any";
/// Polling interval for a file named [`ANY`].
const LOOK: Duration = Duration::from_millis(10);

static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
/// The folder of the tree in that directory.
static OWN: OnceLock<PathBuf> = OnceLock::new();

fn dir() -> Option<&'static Path> {
    let named = || std::env::var_os("ARMENTO_FAULTS").map(PathBuf::from);
    DIR.get_or_init(named).as_deref()
}

/// Declares this process a side of the move of `tree`.
pub fn side_of(tree: TreeId) {
    let Some(own) = dir().map(|d| d.join(tree.to_string())) else {
        return;
    };
    // The user who tests made the directory, and this folder is for the same user.
    let _ = fs::create_dir(&own);
    if OWN.set(own.clone()).is_ok() {
        let watch = move || {
            while own.exists() {
                apply_file(&own.join(ANY));
                std::thread::sleep(LOOK);
            }
        };
        // If no thread can be started, failpoints still work.
        let _ = armento_tracee::spawn::start("faults", watch);
    }
}

/// Passes a failpoint.
pub fn point(point: Failpoint) {
    let name = point.name();
    static LAPS: OnceLock<bool> = OnceLock::new();
    let ms = || armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0) as f64 / 1e6;
    if *LAPS.get_or_init(|| std::env::var_os("ARMENTO_LAPS").is_some()) {
        eprintln!("lap {:.3} {name}", ms());
    }
    let Some(dir) = dir() else { return };
    apply_file(&dir.join(name));
    if let Some(own) = OWN.get() {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(own.join("points"));
        if let Ok(mut log) = log {
            // A failpoint that cannot be recorded is still passed.
            let _ = log.write_all(format!("{name} {:.3}\n", ms()).as_bytes());
        }
        apply_file(&own.join(name));
    }
}

/// Carries out what the file says, once, if it exists. An empty file is just being written: it applies to a later
/// failpoint.
fn apply_file(file: &Path) {
    if let Ok(what) = fs::read_to_string(file)
        && !what.is_empty()
        && fs::remove_file(file).is_ok()
    {
        apply(what.trim());
    }
}

/// Longer than any limit of a move.
const STALL_MAX: f64 = 60.0;

fn stall(seconds: &str) -> Duration {
    let s: f64 = seconds.parse().unwrap_or(0.0);
    Duration::from_secs_f64(s.clamp(0.0, STALL_MAX))
}

fn apply(what: &str) {
    let me = std::process::id() as i32;
    let (word, seconds) = what.split_once(' ').unwrap_or((what, ""));
    let signal = match word {
        "kill" => libc::SIGKILL,
        "freeze" => libc::SIGSTOP,
        "stall" => return std::thread::sleep(stall(seconds)),
        _ => return eprintln!("fault: {what} is unknown"),
    };
    if signal == libc::SIGSTOP {
        let wake = format!("sleep {seconds}; kill -CONT {me}");
        // A frozen process cannot wake itself.
        let _ = Command::new("sh").args(["-c", &wake]).spawn();
    }
    let _ = armento_tracee::sys::kill(me, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_happens_once_after_its_file_is_written() {
        let file = std::env::temp_dir().join(format!("armento-fault-{}", std::process::id()));
        let there = || file.exists();
        apply_file(&file);
        fs::write(&file, "").expect("made");
        apply_file(&file);
        assert!(there(), "it is only just being written");
        fs::write(&file, "stall 0\n").expect("written");
        apply_file(&file);
        assert!(!there(), "it has happened");
    }
}
