//! What is known of one process for lists and for the line written at its end.

use super::job_use::ProcessUse;
use armento_client::api::{NodeUse, Ran};
use armento_model::{CpuTime, FileCounts, MessageCounts, NodeName, Pid};
use armento_tracee::cpu_demand::Demand;
use armento_tracee::messages::Messages;
use armento_tracee::{cpu, status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Environment variable naming a file that gets one line of JSON for each process that ends.
const SUMMARY: &str = "ARMENTO_SUMMARY";

fn summary_file() -> Option<PathBuf> {
    std::env::var_os(SUMMARY).map(Into::into)
}

#[derive(Clone, Serialize, Deserialize)]
pub struct UsageSummary {
    pub pid: Pid,
    pub ppid: Pid,
    pub command: String,
    /// The node on which its body called execve(2) last; `None`: home, or not since it is known.
    pub last_exec: Option<NodeName>,
    pub rss_kib: u64,
    pub threads: u32,
    pub busy_percent: u8,
    /// At home, job control has stopped it.
    #[serde(default)]
    pub stopped: bool,
    home_ns: u64,
    #[serde(skip)]
    demand: Demand,
    #[serde(skip)]
    messages: Messages,
    /// Nanoseconds of stays that are over, and of the stay under way, by node.
    done: BTreeMap<NodeName, u64>,
    now: Option<(NodeName, u64)>,
    /// Calls on files of stays that are over, and of the stay under way.
    files_done: FileCounts,
    files_now: FileCounts,
    /// Calls sent home and bytes, by node, and how many there were in all when that was last noted.
    calls: BTreeMap<NodeName, (u64, u64)>,
    calls_noted: (u64, u64),
    #[serde(skip, default = "summary_file")]
    file: Option<PathBuf>,
    /// The file of the program that it runs since its last exec, and what it had used then, nanoseconds.
    program: Option<(String, u64)>,
}

impl UsageSummary {
    pub fn new(pid: Pid) -> UsageSummary {
        UsageSummary {
            pid,
            ppid: 0,
            command: status::command(pid),
            last_exec: None,
            rss_kib: 0,
            threads: 1,
            busy_percent: 0,
            stopped: false,
            home_ns: 0,
            demand: Demand::default(),
            messages: Messages::default(),
            done: BTreeMap::new(),
            now: None,
            files_done: FileCounts::default(),
            files_now: FileCounts::default(),
            calls: BTreeMap::new(),
            calls_noted: (0, 0),
            file: summary_file(),
            program: None,
        }
    }

    /// Looks at the process: only at home for what its body knows better.
    pub fn refresh(&mut self, home: bool) {
        // The kernel tells nothing of a process that has ended.
        self.home_ns = self.home_ns.max(cpu::process_ns(self.pid));
        if !home && self.ppid != 0 {
            self.demand = Demand::default();
            self.messages.skip();
            return;
        }
        let Ok(s) = status::read(self.pid) else {
            return;
        };
        self.ppid = s.ppid;
        self.threads = s.threads;
        if !home {
            self.messages.skip();
            return;
        }
        self.messages.look(self.pid);
        self.rss_kib = s.rss_kib;
        // KERNEL: proc_pid_status(5): T is stopped; a tracer's stop is another letter.
        self.stopped = s.state == 'T';
        let threads = status::threads(self.pid).unwrap_or_default();
        let share = self
            .demand
            .look(threads.into_iter().map(|t| (t, 0)), Duration::ZERO);
        // Watched, it may be seen between two of its calls.
        self.busy_percent = if s.state == 't' { 100 } else { share };
        // Its exec is not always seen: a child that was found right after the fork may run untraced.
        let command = status::command(self.pid);
        if !command.starts_with('[') || self.command.is_empty() {
            self.command = command;
        }
    }

    pub fn refresh_command(&mut self) {
        self.command = status::command(self.pid);
    }

    /// CPU used away so far; what is new of it, in the present stay.
    pub fn used_at(&mut self, node: &NodeName, away: CpuTime) {
        if self.now.as_ref().is_some_and(|(n, _)| n != node) {
            self.end_stay();
        }
        let before: u64 = self.done.values().sum();
        let had = self.now.as_ref().map_or(0, |n| n.1);
        let ns = away.total_ns().saturating_sub(before);
        self.now = Some((node.clone(), ns.max(had)));
    }

    /// What its body has done with files since it came there.
    pub fn did_with_files(&mut self, files: FileCounts) {
        self.files_now = files;
    }

    pub fn messages(&self) -> Option<MessageCounts> {
        self.messages.counts()
    }

    pub fn files(&self) -> FileCounts {
        let mut all = self.files_done;
        all += self.files_now;
        all
    }

    /// So many calls it has sent home so far, with so many bytes: what is new came from `node`.
    pub fn called(&mut self, node: &NodeName, calls: u64, bytes: u64) {
        let files = self.files();
        let bytes = bytes
            .saturating_add(files.posted_bytes)
            .saturating_add(files.read_bytes);
        let new = (
            calls.saturating_sub(self.calls_noted.0),
            bytes.saturating_sub(self.calls_noted.1),
        );
        self.calls_noted = (calls, bytes);
        if new != (0, 0) {
            let at = self.calls.entry(node.clone()).or_default();
            *at = (at.0 + new.0, at.1 + new.1);
        }
    }

    /// All that it has used, by node.
    pub fn by_node(&self, home: &NodeName) -> ProcessUse {
        let mut all = ProcessUse::new();
        let here = [(home, self.home_ns)];
        let away = self.done.iter().map(|(node, ns)| (node, *ns));
        let now = self.now.iter().map(|(node, ns)| (node, *ns));
        for (node, ns) in here.into_iter().chain(away).chain(now) {
            *all.entry(node.clone()).or_default() += NodeUse {
                cpu_ms: ns / 1_000_000,
                ..NodeUse::default()
            };
        }
        for (node, (calls, call_bytes)) in &self.calls {
            *all.entry(node.clone()).or_default() += NodeUse {
                calls: *calls,
                call_bytes: *call_bytes,
                ..NodeUse::default()
            };
        }
        all
    }

    /// The stay is over.
    pub fn end_stay(&mut self) {
        self.files_done += std::mem::take(&mut self.files_now);
        if let Some((node, ns)) = self.now.take() {
            *self.done.entry(node).or_default() += ns;
        }
    }

    pub fn away_ms(&self) -> u64 {
        (self.done.values().sum::<u64>() + self.now.as_ref().map_or(0, |n| n.1)) / 1_000_000
    }

    pub fn cpu_ms(&self) -> u64 {
        self.home_ns / 1_000_000 + self.away_ms()
    }

    fn cpu_ns(&self) -> u64 {
        let away = self.done.values().sum::<u64>() + self.now.as_ref().map_or(0, |n| n.1);
        self.home_ns + away
    }

    /// It runs another program from now on, or has ended: which one it ran, and the CPU time that this has used, if that is
    /// known.
    pub fn program_ended(&mut self) -> Option<Ran> {
        let now_ns = cpu::process_ns(self.pid);
        self.home_ns = self.home_ns.max(now_ns);
        let (program, before_ns) = self.program.take()?;
        // The kernel knows it of a process that has ended until its parent waits for it.
        let known = now_ns > 0 || self.now.is_some();
        let used_ns = self.cpu_ns().saturating_sub(before_ns);
        Some(Ran {
            pid: self.pid,
            program,
            cpu_ms: known.then_some(used_ns / 1_000_000),
            ended: false,
        })
    }

    /// It stands at the exec of a program.
    pub fn program_begins(&mut self) {
        let path = std::fs::read_link(format!("/proc/{}/exe", self.pid));
        let before_ns = self.cpu_ns();
        self.program = path
            .ok()
            .map(|p| (p.to_string_lossy().into_owned(), before_ns));
    }

    pub fn program(&self) -> Option<&str> {
        self.program.as_ref().map(|(path, _)| path.as_str())
    }

    /// The process ended.
    pub fn finish(&mut self, moves: u64, forwarded: u64) {
        self.end_stay();
        let Some(path) = &self.file else { return };
        let places: serde_json::Map<String, serde_json::Value> = self
            .done
            .iter()
            .map(|(n, ns)| (n.to_string(), (ns / 1_000_000).into()))
            .collect();
        let line = serde_json::json!({
            "pid": self.pid,
            "command": self.command,
            "cpu_ms": self.cpu_ms(),
            "away_cpu_ms": self.away_ms(),
            "moves": moves,
            "forwarded": forwarded,
            "files": self.files(),
            "places": places,
        });
        if let Ok(mut f) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
        {
            // One write, so that lines of several keepers do not mix.
            let _ = f.write_all(format!("{line}\n").as_bytes());
        }
    }
}
