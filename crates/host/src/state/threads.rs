//! Every guest thread, by home's number and by this node's.

use super::process::GuestThread;
use armento_model::{HomeTid, Tid};
use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub struct ThreadTable(RwLock<Numbers>);

#[derive(Default)]
struct Numbers {
    here: HashMap<Tid, Arc<GuestThread>>,
    home: HashMap<HomeTid, Arc<GuestThread>>,
}

impl ThreadTable {
    fn read(&self) -> RwLockReadGuard<'_, Numbers> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Numbers> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    /// The first threads of all bodies.
    pub fn leaders(&self) -> Vec<Arc<GuestThread>> {
        let all = self.read();
        let leaders = all.home.values().filter(|t| t.tid.leads(t.pid));
        leaders.cloned().collect()
    }

    /// How many threads all bodies have.
    pub fn count(&self) -> u64 {
        self.read().here.len() as u64
    }

    /// By this node's number.
    pub fn here(&self, here: Tid) -> Option<Arc<GuestThread>> {
        self.read().here.get(&here).cloned()
    }

    /// By home's number.
    pub fn of_home(&self, tid: HomeTid) -> Option<Arc<GuestThread>> {
        self.read().home.get(&tid).cloned()
    }

    pub fn insert(&self, thread: &Arc<GuestThread>) {
        let mut all = self.write();
        all.here.insert(thread.here, thread.clone());
        all.home.insert(thread.tid, thread.clone());
    }

    pub fn remove(&self, thread: &Arc<GuestThread>) {
        let mut all = self.write();
        all.here.remove(&thread.here);
        // A newer body of the same number may have come meanwhile.
        let its = |o: &Arc<GuestThread>| Arc::ptr_eq(o, thread);
        if all.home.get(&thread.tid).is_some_and(its) {
            all.home.remove(&thread.tid);
        }
    }
}
