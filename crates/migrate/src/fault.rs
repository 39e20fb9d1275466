//! Fault points: places where a test kills or freezes one side of a move.
//!
//! From: `crates/cli/tests/faults.rs`. Only where `ARMENTO_FAULTS` names a directory: a file there, called
//! like the point, says what is to happen (`kill`, or `freeze SECONDS`), once. Where `ARMENTO_LAPS` is set each
//! point is noted in the log with its time, so that one sees what a pause is made of.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Passes a point of a move.
pub fn point(name: &str) {
    static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    static LAPS: OnceLock<bool> = OnceLock::new();
    if *LAPS.get_or_init(|| std::env::var_os("ARMENTO_LAPS").is_some()) {
        let ms = armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0) as f64 / 1e6;
        eprintln!("lap {ms:.3} {name}");
    }
    let dir = DIR.get_or_init(|| std::env::var_os("ARMENTO_FAULTS").map(PathBuf::from));
    if let Some(path) = dir.as_ref().map(|d| d.join(name))
        && let Ok(what) = fs::read_to_string(&path)
        && fs::remove_file(&path).is_ok()
    {
        happen(what.trim());
    }
}

fn happen(what: &str) {
    let me = std::process::id() as i32;
    let (word, seconds) = what.split_once(' ').unwrap_or((what, ""));
    let signal = match word {
        "kill" => libc::SIGKILL,
        "freeze" => libc::SIGSTOP,
        _ => return eprintln!("fault: {what} is none"),
    };
    if signal == libc::SIGSTOP {
        let wake = format!("sleep {seconds}; kill -CONT {me}");
        // Who is frozen cannot wake itself.
        let _ = Command::new("sh").args(["-c", &wake]).spawn();
    }
    let _ = armento_tracee::sys::kill(me, signal);
}
