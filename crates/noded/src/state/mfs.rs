//! What a daemon knows of MFS: its mount, its file servers, what processes said of the symbolic names.
//!
//! Lock: each of them alone, never with `Node::core`, never across a call that waits.

use crate::file_servers::{FileServers, MOUNT_FILE, MountRecord, Notes, ServerRecord};
use crate::process::Process;
use crate::state_dir::StateDir;
use crate::sys;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
pub struct Mfs {
    servers: Mutex<FileServers>,
    /// Notified whenever that table changes.
    pub servers_changed: Condvar,
    mount: Mutex<MountState>,
    notes: Mutex<Notes>,
    /// Whether it is to be mounted may have changed.
    pub changed: Notify,
}

/// The mount of this node.
#[derive(Clone, Debug, Default)]
pub struct MountState {
    pub record: Option<MountRecord>,
    /// Why it is not there.
    pub why: String,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under these locks is a bug that ends its task; the tables stay usable.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mfs {
    /// As an earlier daemon left it.
    pub fn recover(state: &StateDir) -> Mfs {
        let (servers, unfinished) = FileServers::recover(state);
        unfinished.iter().for_each(kill_server);
        let record = state.read_json::<MountRecord>(MOUNT_FILE).ok().flatten();
        // One that its daemon did not hear of may never be up: a dead record has it started again.
        if let Some(r) = record.as_ref().filter(|r| !r.up && r.process.lives()) {
            sys::kill(r.process.pid);
        }
        Mfs {
            servers: Mutex::new(servers),
            mount: Mutex::new(MountState {
                record,
                why: String::new(),
            }),
            ..Mfs::default()
        }
    }

    pub fn servers(&self) -> MutexGuard<'_, FileServers> {
        lock(&self.servers)
    }

    pub fn mount(&self) -> MutexGuard<'_, MountState> {
        lock(&self.mount)
    }

    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }

    /// Whether it is to be mounted may have changed; what failed before is tried again.
    pub fn may_have_changed(&self) {
        self.mount().why.clear();
        self.changed.notify_one();
    }

    /// Whether that process holds the mount.
    pub fn is_mount(&self, process: Option<Process>) -> bool {
        let record = self.mount().record.clone();
        process.is_some() && record.map(|r| r.process) == process
    }

    /// The file server that this process is.
    pub fn server_of(&self, process: Process) -> Option<ServerRecord> {
        self.servers().all().find(|r| r.process == process).cloned()
    }
}

/// Ends a file server: its mount gets its errors from then on, or another one.
pub fn kill_server(record: &ServerRecord) {
    if record.process.lives() {
        tracing::info!(
            "the file server of user {} of {} is not wanted",
            record.uid,
            record.asker
        );
        sys::kill(record.process.pid);
    }
}
