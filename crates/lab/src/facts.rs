//! The machine a run was made on, and how busy it was.

use crate::sys;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;

/// The machine, the program, and the load before and after a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub kernel: String,
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: Vec<usize>,
    pub mem_total_kib: u64,
    pub huge_pages: String,
    pub load_before: String,
    pub load_after: String,
    pub armento: String,
    /// `release`, `debug` or `unknown`, from the directory of the executable.
    pub build: String,
}

impl Facts {
    /// `armento`: the program that is run.
    pub fn before(armento: &Path) -> Result<Facts> {
        let version = std::process::Command::new(armento)
            .arg("--version")
            .output()?;
        let built = |dir: &str| armento.components().any(|c| c.as_os_str() == dir);
        Ok(Facts {
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: field("/proc/cpuinfo", "model name"),
            cores: sys::affinity(),
            mem_total_kib: field("/proc/meminfo", "MemTotal")
                .split_whitespace()
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0),
            huge_pages: chosen(&line("/sys/kernel/mm/transparent_hugepage/enabled")),
            load_before: load(),
            load_after: String::new(),
            armento: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            build: match (built("release"), built("debug")) {
                (true, false) => "release",
                (false, true) => "debug",
                _ => "unknown",
            }
            .to_owned(),
        })
    }

    /// Notes the load at the end.
    pub fn after(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}, {}", self.kernel, self.cpu)?;
        writeln!(
            f,
            "cores {:?}, memory {} MiB, huge pages {}, load before: {}",
            self.cores,
            self.mem_total_kib / 1024,
            self.huge_pages,
            self.load_before
        )?;
        let doubt = match &*self.build {
            "release" => "",
            _ => " (the bars are meant for release builds)",
        };
        writeln!(f, "{}, {} build{doubt}", self.armento, self.build)
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path)
        .map(|t| t.lines().next().unwrap_or_default().to_owned())
        .unwrap_or_else(|_| "unknown".into())
}

/// The first `name : value` of a file of such lines.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix(name)?.trim_start().strip_prefix(':'))
        .map_or_else(|| "unknown".into(), |v| v.trim().to_owned())
}

/// The word in brackets of `always [madvise] never`.
fn chosen(words: &str) -> String {
    let inside = words.split_once('[').and_then(|(_, w)| w.split_once(']'));
    inside.map_or(words, |(w, _)| w).to_owned()
}

/// Averages of 1, 5 and 15 minutes, running/all tasks.
fn load() -> String {
    let all = line("/proc/loadavg");
    let words: Vec<&str> = all.split_whitespace().take(4).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("unknown"), "unknown");
    }

    #[test]
    fn facts_can_be_read_on_this_machine() {
        assert_ne!(field("/proc/meminfo", "MemTotal"), "unknown");
        assert_eq!(field("/proc/none", "x"), "unknown");
        assert_eq!(load().split(' ').count(), 4);
    }
}
