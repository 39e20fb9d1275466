//! Every deputy of the tree, by its thread.

use crate::deputy::Deputy;
use armento_model::{Pid, Tid};
use armento_tracee::pages::Run;
use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub struct Deputies(RwLock<HashMap<Tid, Arc<Deputy>>>);

impl Deputies {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Tid, Arc<Deputy>>> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Tid, Arc<Deputy>>> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    pub fn get(&self, tid: Tid) -> Option<Arc<Deputy>> {
        self.read().get(&tid).cloned()
    }

    pub fn insert(&self, d: &Arc<Deputy>) {
        self.write().insert(d.tid, d.clone());
    }

    pub fn remove(&self, tid: Tid) {
        self.write().remove(&tid);
    }

    /// What restart blocks of its deputies read and write, in whole pages.
    pub fn kept_memory(&self, pid: Pid) -> Vec<Run> {
        let all = self.read();
        let kept = all.values().filter(|d| d.pid == pid);
        kept.filter_map(|d| d.kept_memory()).collect()
    }

    /// Processes that have deputies: those that are away.
    pub fn pids(&self) -> Vec<Pid> {
        self.read().values().map(|d| d.pid).collect()
    }
}
