//! Shared memory that is away and that other processes could find by its name or number.

use crate::deputy::HostLink;
use crate::sync::lock;
use armento_migrate::image::objects::{ObjectId, Persistent};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[derive(Default)]
pub struct ShmGuards {
    pub held: Mutex<HashMap<ObjectId, Guarded>>,
    /// One of them is home.
    pub released: Condvar,
    /// The fanotify group, made with the first file.
    pub watch: Mutex<Option<Arc<OwnedFd>>>,
    /// Held while they are brought home, by a group or at the end of one of it. Contents that are fetched must not meet
    /// processes that run at home already.
    settling: Mutex<()>,
}

#[derive(Clone)]
pub struct Guarded {
    pub file: Arc<File>,
    pub how: Persistent,
    pub link: Arc<HostLink>,
    /// Its processes were handed over.
    pub away: bool,
}

impl ShmGuards {
    /// Whether it is away, and guarded.
    pub fn has(&self, object: &ObjectId) -> bool {
        lock(&self.held).contains_key(object)
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.held).is_empty()
    }

    /// One at a time brings them home.
    pub fn lock_settling(&self) -> MutexGuard<'_, ()> {
        lock(&self.settling)
    }

    /// The processes that map them were handed over.
    pub fn mark_away(&self, objects: &HashSet<ObjectId>) {
        let mut held = lock(&self.held);
        for object in objects {
            if let Some(h) = held.get_mut(object) {
                h.away = true;
            }
        }
    }
}
