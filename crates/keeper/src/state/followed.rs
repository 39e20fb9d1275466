//! Threads at home whose forks and execs are followed (`--spread`).

use crate::restart::SpuriousWakeups;
use armento_model::{Pid, Tid};
use armento_tracee::trace;
use std::collections::HashMap;

pub struct Followed {
    pub on: bool,
    /// Seized threads at home, with their processes.
    pub threads: HashMap<Tid, Pid>,
    /// Children that have not exec'd, and at how many more stops we look.
    pub fresh: HashMap<Tid, u32>,
    /// Those in waits that our tracing has woken.
    pub wakes: SpuriousWakeups,
}

impl Followed {
    pub fn new(on: bool) -> Followed {
        Followed {
            on,
            threads: HashMap::new(),
            fresh: HashMap::new(),
            wakes: SpuriousWakeups::default(),
        }
    }

    /// It leaves, ended or exec'd.
    pub fn forget(&mut self, pid: Pid) {
        for (tid, _) in self.threads.extract_if(|_, p| *p == pid) {
            self.wakes.forget(tid);
        }
        self.fresh.remove(&pid);
    }

    pub fn ended(&mut self, tid: Tid) {
        self.threads.remove(&tid);
        self.fresh.remove(&tid);
        self.wakes.forget(tid);
    }

    pub fn go(&self, tid: Tid, sig: i32) -> trace::Result<()> {
        if self.fresh.contains_key(&tid) || self.wakes.has(tid) {
            trace::resume_to_call(tid, sig)
        } else {
            trace::resume(tid, sig)
        }
    }

    /// Never more of it: it goes on untraced, and is found by looking, as without `--spread`.
    pub fn let_go(&mut self, tid: Tid) -> trace::Result<()> {
        self.ended(tid);
        trace::detach(tid, 0)
    }
}
