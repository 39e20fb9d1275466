//! Processes by pid and start time, so that a reused pid is not mistaken for the process it had.

use armento_model::Pid;
use serde::{Deserialize, Serialize};
use std::fs;

/// A process, told apart from a later one with the same pid by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: Pid,
    pub started: u64,
}

impl Process {
    pub fn of(pid: Pid) -> Option<Process> {
        let started = started(pid)?;
        Some(Process { pid, started })
    }

    /// It runs still.
    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// Start time of a process in clock ticks since boot: field 22 of `/proc/PID/stat`.
pub fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; fields are counted after it.
    let after = stat.rsplit_once(") ")?.1;
    let mut fields = after.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
