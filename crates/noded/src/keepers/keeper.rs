//! One keeper in session.

use crate::line_sender::LineSender;
use armento_balance::{Counts, Seen};
use armento_client::api::{CpuSet, KeeperHello, ProcInfo};
use armento_model::{NodeName, Pid};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A keeper that has not asked for a place so long after its hello will not.
const BEGINS_MAX: Duration = Duration::from_secs(5);
/// Programs between their exec and the next report.
const EXECS_MAX: usize = 1024;

/// The program of a keeper, beside the daemon's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperProgram {
    /// Not looked at since it said hello.
    Unknown,
    Same,
    /// Another; it was told then to become the daemon's.
    Told(Instant),
    /// Another, and it could not become the daemon's then, for this reason.
    Stays(Instant, String),
}

pub struct Keeper {
    pub session: u64,
    pub hello: KeeperHello,
    pub out: LineSender,
    pub procs: Vec<ProcInfo>,
    /// Where programs called execve(2) that were not reported since.
    execs: BTreeMap<Pid, NodeName>,
    /// When it said hello.
    pub since: Instant,
    /// Its first program was given a place.
    pub placed: bool,
    /// Whether it is the daemon's program.
    pub program: KeeperProgram,
    /// The nodes that it was told are closed to it; an earlier daemon may have told it others.
    pub closed: Option<Vec<NodeName>>,
}

impl Keeper {
    /// `procs`: of its session before.
    pub fn new(session: u64, out: LineSender, hello: KeeperHello, procs: Vec<ProcInfo>) -> Keeper {
        Keeper {
            session,
            out,
            procs,
            execs: BTreeMap::new(),
            since: Instant::now(),
            placed: hello.was_there(),
            program: KeeperProgram::Unknown,
            closed: (!hello.was_there()).then(Vec::new),
            hello,
        }
    }

    /// Its processes move only when a person asks for it.
    pub fn locked(&self) -> bool {
        self.hello.stay || self.hello.storm || self.hello.pinned.is_some()
    }

    /// What `pid` needs of a processor if not all of home's. No report has a process that has just started: then as it
    /// was started; the host asks again.
    pub fn needs(&self, pid: Pid) -> Option<CpuSet> {
        needs(&self.hello, self.holds(pid).is_none_or(|p| p.portable))
    }

    pub fn holds(&self, pid: Pid) -> Option<&ProcInfo> {
        self.procs.iter().find(|p| p.pid == pid)
    }

    /// A process called execve(2) there.
    pub fn execed(&mut self, pid: Pid, node: NodeName) {
        if self.execs.len() >= EXECS_MAX {
            self.execs.pop_first();
        }
        self.execs.insert(pid, node);
    }

    /// Processes were reported, with where they called it.
    pub fn know_execs(&mut self) {
        let procs = &self.procs;
        self.execs
            .retain(|pid, _| procs.iter().all(|p| p.pid != *pid));
    }

    /// Where `pid` called execve(2) last; `None`: home, or unknown.
    pub fn last_exec(&self, pid: Pid) -> Option<&NodeName> {
        let reported = || self.holds(pid)?.last_exec.as_ref();
        self.execs.get(&pid).or_else(reported)
    }

    /// It has said hello and will ask for a place.
    pub fn begins(&self) -> bool {
        !self.placed && !self.locked() && self.since.elapsed() < BEGINS_MAX
    }
}

/// What a process of this keeper needs of a processor if not all of home's.
pub fn needs(hello: &KeeperHello, portable: bool) -> Option<CpuSet> {
    hello.common.clone().filter(|_| portable)
}

/// A process that runs for less than this share of its time, percent, while it has a child, waits for that.
const WAITS_PERCENT: u8 = 5;

/// What the ledger is told of a process. `parent`: it has a child.
pub fn seen(p: &ProcInfo, parent: bool, hello: &KeeperHello) -> Seen {
    Seen {
        pid: p.pid,
        uid: p.uid,
        place: p.place.clone(),
        cpu_ms: p.cpu_ms,
        rss_kib: p.rss_kib,
        threads: p.threads,
        busy_percent: p.busy_percent,
        calls: Counts {
            waits: p.forwarded,
            posts: p.files.posted,
            sent: p.bytes_sent.saturating_add(p.files.posted_bytes),
            received: p.bytes_received.saturating_add(p.files.read_bytes),
        },
        messages: p.messages.map(|m| Counts {
            waits: m.calls,
            posts: 0,
            sent: m.sent,
            received: m.received,
        }),
        others: Vec::new(),
        name: program_name(&p.command).to_owned(),
        age_ms: p.age_ms,
        locked: p.locked,
        settles: hello.begins_here,
        waits: parent && p.busy_percent < WAITS_PERCENT,
        needs: needs(hello, p.portable),
        hint: hello.hint,
    }
}

/// The name of the program of a command line: its first word, without the directory.
pub fn program_name(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or("");
    first.rsplit('/').next().unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_the_last_part_of_the_first_word() {
        for (command, name) in [
            ("/usr/bin/cp -r a b", "cp"),
            ("cp", "cp"),
            ("", ""),
            ("dir/", ""),
        ] {
            assert_eq!(program_name(command), name, "{command}");
        }
    }
}
