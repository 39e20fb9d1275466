//! Fault points: places where a test kills or freezes one side of a move.
//!
//! From: `crates/cli/tests/faults.rs`, `conform/src/faults/run.rs`. Only where `ARMENTO_FAULTS` names a directory: a file
//! there, or in its folder of the process's tree, called like the point, says what is to happen (`kill`, `freeze
//! SECONDS`, or `stall SECONDS` for the thread that passes it alone), once; one called [`ANY`] happens wherever the process
//! is. The points passed are noted in the folder of the tree. Where `ARMENTO_LAPS` is set each point is noted in the log
//! with its time, so that one sees what a pause is made of.

use armento_model::TreeId;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// A fault at no point in particular.
pub const ANY: &str = "any";
/// How often a process looks for one.
const LOOK: Duration = Duration::from_millis(10);

static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
/// Folder of the tree below it.
static OWN: OnceLock<PathBuf> = OnceLock::new();

fn dir() -> Option<&'static Path> {
    let named = || std::env::var_os("ARMENTO_FAULTS").map(PathBuf::from);
    DIR.get_or_init(named).as_deref()
}

/// This process is a side of `tree` from now on.
pub fn side_of(tree: TreeId) {
    let Some(own) = dir().map(|d| d.join(tree.to_string())) else {
        return;
    };
    // Whoever tests made the directory, and this one is for whoever tests.
    let _ = fs::create_dir(&own);
    if OWN.set(own.clone()).is_ok() {
        let watch = move || {
            while own.exists() {
                happens(&own.join(ANY));
                std::thread::sleep(LOOK);
            }
        };
        // Without room for a thread there are the points.
        let _ = armento_tracee::aside::start("faults", watch);
    }
}

/// Passes a point of a move.
pub fn point(name: &str) {
    static LAPS: OnceLock<bool> = OnceLock::new();
    if *LAPS.get_or_init(|| std::env::var_os("ARMENTO_LAPS").is_some()) {
        let ms = armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0) as f64 / 1e6;
        eprintln!("lap {ms:.3} {name}");
    }
    let Some(dir) = dir() else { return };
    happens(&dir.join(name));
    if let Some(own) = OWN.get() {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(own.join("points"));
        if let Ok(mut log) = log {
            // A point that is not noted was passed all the same.
            let _ = log.write_all(format!("{name}\n").as_bytes());
        }
        happens(&own.join(name));
    }
}

/// What the file says, if it is there; once. One that says nothing is only just being written: its word is for a later point.
fn happens(file: &Path) {
    if let Ok(what) = fs::read_to_string(file)
        && !what.is_empty()
        && fs::remove_file(file).is_ok()
    {
        happen(what.trim());
    }
}

/// Longer than any limit of a move.
const STALL_MAX: f64 = 60.0;

fn stall(seconds: &str) -> Duration {
    let s: f64 = seconds.parse().unwrap_or(0.0);
    Duration::from_secs_f64(s.clamp(0.0, STALL_MAX))
}

fn happen(what: &str) {
    let me = std::process::id() as i32;
    let (word, seconds) = what.split_once(' ').unwrap_or((what, ""));
    let signal = match word {
        "kill" => libc::SIGKILL,
        "freeze" => libc::SIGSTOP,
        "stall" => return std::thread::sleep(stall(seconds)),
        _ => return eprintln!("fault: {what} is none"),
    };
    if signal == libc::SIGSTOP {
        let wake = format!("sleep {seconds}; kill -CONT {me}");
        // Who is frozen cannot wake itself.
        let _ = Command::new("sh").args(["-c", &wake]).spawn();
    }
    let _ = armento_tracee::sys::kill(me, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_there_when_it_is_written_and_happens_once() {
        let file = std::env::temp_dir().join(format!("armento-fault-{}", std::process::id()));
        let there = || file.exists();
        happens(&file);
        fs::write(&file, "").expect("made");
        happens(&file);
        assert!(there(), "it is only just being written");
        fs::write(&file, "stall 0\n").expect("written");
        happens(&file);
        assert!(!there(), "it has happened");
    }
}
