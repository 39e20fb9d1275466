//! Processes at home that are watched, so that what they read of their CPU time is corrected.

use crate::restart::RestartedCalls;
use armento_model::{Pid, Tid};
use armento_tracee::trace;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often we look whether home's kernel tells enough by now.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct CpuFixup {
    /// Processes that are watched, and when each was looked at last.
    pub procs: HashMap<Pid, Instant>,
    /// Threads that stop at calls, and when their last call began. Their process may be watched no more.
    pub threads: HashMap<Tid, (Pid, Option<Instant>)>,
    /// Threads that stop at calls until the end of one that is restarted.
    pub restarted: RestartedCalls,
}

impl CpuFixup {
    pub fn has(&self, pid: Pid) -> bool {
        self.procs.contains_key(&pid)
    }

    /// It leaves, ended or exec'd.
    pub fn forget(&mut self, pid: Pid) {
        self.procs.remove(&pid);
        self.threads.retain(|_, (p, _)| *p != pid);
        self.restarted.forget_process(pid);
    }

    /// A thread was interrupted, though not by its program: has it done a part of its call, that is restarted until its
    /// end.
    pub fn finish_partial_io(&mut self, pid: Pid, tid: Tid) -> trace::Result<bool> {
        let cut = self.restarted.cut(pid, tid)?;
        if cut {
            self.threads.insert(tid, (pid, None));
        }
        Ok(cut)
    }

    /// The process of a thread that ended, if it was watched.
    pub fn ended(&mut self, tid: Tid) -> Option<Pid> {
        self.restarted.forget(tid);
        self.threads.remove(&tid).map(|(pid, _)| pid)
    }

    pub fn began(&mut self, tid: Tid) {
        if let Some((_, since)) = self.threads.get_mut(&tid) {
            *since = Some(Instant::now());
        }
    }

    pub fn since(&self, tid: Tid) -> Option<Instant> {
        self.threads.get(&tid)?.1
    }

    pub fn due(&mut self, pid: Pid) -> bool {
        let Some(last) = self.procs.get_mut(&pid) else {
            return true;
        };
        let due = last.elapsed() > LOOK_EVERY;
        if due {
            *last = Instant::now();
        }
        due
    }
}
