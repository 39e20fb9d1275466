//! Locks of ranges and of files, between mounts and with the node's own processes.
//!
//! A range lock belongs to a description of its own for each file and owner, so that the kernel keeps owners apart as it
//! does natively. Lock: [`Locks::table`], never held while a lock is waited for.

use crate::protocol::Reply;
use crate::server::opens::errno;
use crate::server::res::Res;
use crate::sync::{lock, wait};
use crate::sys;
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Owners with locks in a session at most.
pub const OWNERS_MAX: usize = 64 << 10;
/// Threads that wait for a lock in a session at most.
pub const WAITS_MAX: usize = 256;
/// A thread that was not yet in its call when it was interrupted is interrupted again.
const AGAIN: Duration = Duration::from_millis(10);

pub struct Owner {
    pub file: File,
    pub pid: u32,
}

#[derive(Default)]
struct Waiting {
    /// The thread, once it is about to wait.
    tid: Option<i32>,
    cancelled: bool,
    done: bool,
}

#[derive(Default)]
pub struct Wait {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
pub struct Locks {
    pub owners: Mutex<HashMap<(u64, u64), Arc<Owner>>>,
    pub waits: Mutex<HashMap<u64, Arc<Wait>>>,
}

impl Wait {
    /// Calls until the call succeeds, fails, or is cancelled.
    pub fn run(&self, call: impl Fn() -> std::io::Result<()>) -> Res<Reply> {
        let end = loop {
            {
                let mut s = lock(&self.state);
                if s.cancelled {
                    break Err(Errno::INTR);
                }
                s.tid = Some(sys::gettid());
            }
            match call().map_err(errno) {
                Err(Errno::INTR) => {}
                r => break r.map(|()| Reply::Done),
            }
        };
        lock(&self.state).done = true;
        self.changed.notify_all();
        end
    }

    /// After it the thread no longer waits.
    fn cancel(&self) {
        let mut s = lock(&self.state);
        s.cancelled = true;
        while !s.done {
            if let Some(tid) = s.tid {
                sys::interrupt(tid);
            }
            s = wait(&self.changed, s, AGAIN);
        }
    }
}

impl Locks {
    /// Ends the wait of a request.
    pub fn cancel(&self, id: u64) {
        let w = lock(&self.waits).get(&id).cloned();
        if let Some(w) = w {
            // It takes as long as the thread takes to wake.
            let _ = std::thread::Builder::new().spawn(move || w.cancel());
        }
    }

    pub fn cancel_all(&self) {
        let all: Vec<_> = lock(&self.waits).drain().map(|(_, w)| w).collect();
        all.iter().for_each(|w| w.cancel());
    }

    pub fn unlock(&self, node: u64, owner: u64) {
        // Its locks end with the description.
        lock(&self.owners).remove(&(node, owner));
    }

    pub fn count(&self) -> usize {
        lock(&self.owners).len()
    }
}
