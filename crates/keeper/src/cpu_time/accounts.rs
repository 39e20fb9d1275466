//! What each process of a tree, and its threads and children, used away.
//!
//! From: `keeper/src/calls/dispatch.rs`, `keeper/src/moves/restore_threads.rs` (what hosts report).
//! Next: `keeper/src/moves/freeze.rs` (it travels).

use crate::sync::lock;
use armento_migrate::image::{Cpu, State};
use armento_model::{CpuTime, Pid, Shown, Tid};
use armento_tracee::{cpu, status};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Mutex;

/// When there are more accounts, those of processes that ended are dropped: few parents read their times.
const ACCOUNTS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) away: CpuTime,
    pub(super) shown: Shown,
    /// What home's kernel said when it came: one that says less later has only the same number.
    home_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    pub(super) away: CpuTime,
    pub(super) shown: Shown,
    pub(super) threads: HashMap<Tid, Thread>,
    /// Used away by children that it has waited for, and by theirs.
    pub(super) children: CpuTime,
    pub(super) children_shown: Shown,
}

/// Shared by the tracer thread and the deputies' waiters. A lock for a moment only.
#[derive(Default)]
pub struct CpuAccounts(pub(super) Mutex<HashMap<Pid, Account>>);

impl CpuAccounts {
    pub fn all(&self) -> HashMap<Pid, Account> {
        lock(&self.0).clone()
    }

    /// As another process image had them.
    pub fn take_over(&self, all: HashMap<Pid, Account>) {
        *lock(&self.0) = all;
    }

    /// A process begins: one that had its number before is no more.
    pub fn begin(&self, pid: Pid) {
        let mut all = lock(&self.0);
        if all.len() >= ACCOUNTS_MAX {
            // A parent that has not waited for one of these at all reads less.
            all.retain(|pid, _| status::read(*pid).is_ok());
        }
        all.insert(pid, Account::default());
    }

    /// Used away so far.
    pub fn reported(&self, pid: Pid, away: CpuTime) {
        let mut all = lock(&self.0);
        let a = all.entry(pid).or_default();
        if away.total_ns() > a.away.total_ns() {
            a.away = away;
        }
    }

    pub fn away(&self, pid: Pid) -> CpuTime {
        lock(&self.0)
            .get(&pid)
            .map_or_else(CpuTime::default, |a| a.away)
    }

    pub fn thread_reported(&self, pid: Pid, tid: Tid, away: CpuTime) {
        let mut all = lock(&self.0);
        all.entry(pid)
            .or_default()
            .threads
            .entry(tid)
            .or_default()
            .away = away;
    }

    /// A process came home with this state.
    pub fn came_home(&self, pid: Pid, state: &State) {
        self.reported(pid, state.cpu.away);
        let threads = state.threads.iter().map(|t| {
            let tid = t.tid.at_home();
            let thread = Thread {
                away: t.cpu.away,
                shown: t.cpu.shown,
                home_ns: cpu::thread_ns(tid),
            };
            (tid, thread)
        });
        let threads = threads.collect();
        let mut all = lock(&self.0);
        let a = all.entry(pid).or_default();
        a.shown = state.cpu.shown;
        a.threads = threads;
    }

    /// What goes along with a process that leaves home.
    pub fn leaves(&self, pid: Pid) -> Cpu {
        let home = cpu::process(pid);
        let (away, shown) = lock(&self.0)
            .get(&pid)
            .map_or_else(Default::default, |a| (a.away, a.shown));
        Cpu { home, away, shown }
    }

    pub fn thread_leaves(&self, pid: Pid, tid: Tid) -> Cpu {
        let home = cpu::thread(tid);
        let t = self
            .thread(pid, tid)
            .filter(|t| t.home_ns <= home.total_ns());
        let t = t.unwrap_or_default();
        Cpu {
            home,
            away: t.away,
            shown: t.shown,
        }
    }

    pub(super) fn thread(&self, pid: Pid, tid: Tid) -> Option<Thread> {
        lock(&self.0).get(&pid)?.threads.get(&tid).copied()
    }

    pub fn thread_ended(&self, pid: Pid, tid: Tid) {
        if let Some(a) = lock(&self.0).get_mut(&pid) {
            a.threads.remove(&tid);
        }
    }

    /// A new image has read nothing yet. Of its threads the one is left that was `former`.
    pub fn execed(&self, pid: Pid, former: Tid) {
        if let Some(a) = lock(&self.0).get_mut(&pid) {
            let left = a.threads.remove(&former).map(|t| {
                let shown = Shown::default();
                (pid, Thread { shown, ..t })
            });
            a.threads = left.into_iter().collect();
            (a.shown, a.children_shown) = Default::default();
        }
    }

    /// Whether the process, at home, would read less from its kernel than it has read before.
    pub fn must_correct(&self, pid: Pid) -> bool {
        let Some(a) = lock(&self.0).get(&pid).cloned() else {
            return false;
        };
        let nothing = Shown::default();
        let of =
            |shown: &Shown, says: &dyn Fn() -> Shown| *shown != nothing && shown.beyond(&says());
        let children = || Shown {
            split: cpu::children_says(pid),
            ..nothing
        };
        of(&a.shown, &|| cpu::process_says(pid))
            || of(&a.children_shown, &children)
            || a.threads
                .iter()
                .any(|(tid, t)| of(&t.shown, &|| cpu::thread_says(*tid)))
    }
}
