//! Threads at home whose forks and execs are followed (`--spread`).

use crate::restart::SpuriousWakeups;
use armento_model::{Pid, Tid};
use armento_tracee::trace::{self, Stopped};
use std::collections::HashMap;

pub struct Followed {
    pub on: bool,
    /// Seized threads at home, with their processes.
    pub threads: HashMap<Tid, Pid>,
    /// Children that have not exec'd, and at how many more stops we look.
    pub not_execed: HashMap<Tid, u32>,
    /// Those in waits that our tracing has woken.
    pub wakeups: SpuriousWakeups,
}

impl Followed {
    pub fn new(on: bool) -> Followed {
        Followed {
            on,
            threads: HashMap::new(),
            not_execed: HashMap::new(),
            wakeups: SpuriousWakeups::default(),
        }
    }

    /// It leaves, ended or exec'd.
    pub fn forget(&mut self, pid: Pid) {
        for (tid, _) in self.threads.extract_if(|_, p| *p == pid) {
            self.wakeups.forget(tid);
        }
        self.not_execed.remove(&pid);
    }

    pub fn ended(&mut self, tid: Tid) {
        self.threads.remove(&tid);
        self.not_execed.remove(&tid);
        self.wakeups.forget(tid);
    }

    pub fn go(&self, thread: Stopped, sig: i32) -> trace::Result<()> {
        let tid = thread.tid();
        if self.not_execed.contains_key(&tid) || self.wakeups.has(tid) {
            trace::resume_to_call(thread, sig)
        } else {
            trace::resume(thread, sig)
        }
    }

    /// Never more of it: it goes on untraced, and is found by looking, as without `--spread`.
    pub fn let_go(&mut self, thread: Stopped) -> trace::Result<()> {
        self.ended(thread.tid());
        trace::detach(thread, 0)
    }
}
