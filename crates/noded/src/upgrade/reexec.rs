//! The daemon becomes the program that is at its path: the same process, with the same arguments.
//!
//! A service manager sees no restart, and the daemon's children stay its children. From: `noded/src/control/requests.rs`.
//! Next: `noded/src/daemon/service.rs`, which calls [`become_program`] when the daemon has ended.

use super::program::own_program;
use crate::error::{Result, refusal};
use crate::state::Node;
use crate::sys;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Time for the answer to the one that asked for it.
const ANSWER: Duration = Duration::from_millis(200);
/// Between two looks at children of the program before.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// Ends the daemon and has its process become the program at its path. Returns before that.
pub fn restart(node: &Node) -> Result<()> {
    if !node.own_process.load(Ordering::Relaxed) {
        let what = "this daemon is a part of another process; nothing was changed";
        return Err(refusal("not-permitted", what, "start that process again"));
    }
    node.restarts.store(true, Ordering::Relaxed);
    let stop = node.stop.clone();
    let begun = thread::Builder::new()
        .name("restart".into())
        .spawn(move || {
            thread::sleep(ANSWER);
            stop.send_replace(true);
        });
    begun
        .map(drop)
        .map_err(|e| refusal("failed", format!("no thread: {e}"), "try again"))
}

/// Before: the daemon has ended. Returns only if neither the program at the path nor the one that runs can be started.
pub fn become_program() -> io::Error {
    let path = match own_program() {
        Ok(path) => path,
        Err(e) => return e,
    };
    tracing::info!("goes on as {}", path.display());
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let args: Vec<_> = words.collect();
    sys::lock_memory_again();
    let exec = |program: &std::path::Path| {
        sys::as_others(|| Command::new(program).arg0(&name).args(&args).exec())
    };
    let first = exec(&path);
    tracing::error!("{}: {first}; the program of before goes on", path.display());
    // Still open, whatever is at its path.
    exec("/proc/self/exe".as_ref())
}

/// Children of the program that this process was before: its successor does not know them, so their ends are collected
/// here.
pub fn reap_inherited() {
    let own = std::process::id() as i32;
    let mut children: Vec<i32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| parent(*pid) == Some(own))
        .collect();
    if children.is_empty() {
        return;
    }
    let reap = move || {
        while !children.is_empty() {
            children.retain(|pid| !sys::is_reaped(*pid));
            thread::sleep(REAP_EVERY);
        }
    };
    if let Err(e) = thread::Builder::new().name("reap".into()).spawn(reap) {
        tracing::warn!("children of the program before stay as zombies: {e}");
    }
}

/// KERNEL: proc_pid_stat(5), the fourth field; the second, in parentheses, may hold anything.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_this_process_are_found_and_reaped() {
        let mut child = Command::new("true").spawn().expect("a child");
        let pid = child.id() as i32;
        assert_eq!(parent(pid), Some(std::process::id() as i32));
        while !sys::is_reaped(pid) {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(parent(pid), None);
        assert!(child.wait().is_err(), "it was collected already");
    }
}
