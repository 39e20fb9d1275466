//! Calls on locks.

use crate::protocol::{Range, Reply};
use crate::server::locks::{OWNERS_MAX, Owner, WAITS_MAX, Wait};
use crate::server::opens::errno;
use crate::server::res::Res;
use crate::server::session::Session;
use crate::sync::lock;
use crate::sys;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;

impl Session {
    fn owner(&self, id: u64, file: u64, owner: u64, range: &Range) -> Res<Arc<Owner>> {
        if range.end < range.start || range.start > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let pid = range.pid;
        let key = (id, owner);
        if let Some(o) = lock(&self.locks.owners).get(&key) {
            return Ok(o.clone());
        }
        let open = self.files.get(file)?;
        let path = crate::server::inodes::proc_path(&open.file);
        let with = |how: OFlags| rustix::fs::open(&path, how | OFlags::CLOEXEC, Mode::empty());
        // Both kinds of locks, or those that the program's own description allows.
        let as_open = if open.write {
            OFlags::WRONLY
        } else {
            OFlags::RDONLY
        };
        let f = with(OFlags::RDWR).or_else(|_| with(as_open))?;
        let mut owners = lock(&self.locks.owners);
        if owners.len() >= OWNERS_MAX {
            return Err(Errno::NOLCK);
        }
        let new = Arc::new(Owner {
            file: f.into(),
            pid,
        });
        Ok(owners.entry(key).or_insert(new).clone())
    }

    pub fn getlk(&self, id: u64, file: u64, owner: u64, range: &Range) -> Res<Reply> {
        let o = self.owner(id, file, owner, range)?;
        let mut found = sys::conflict(&o.file, range).map_err(errno)?;
        if let Some(f) = &mut found
            && f.pid == 0
        {
            // Locks of descriptions have no process: it is another owner's of this mount, if there is but one.
            let owners = lock(&self.locks.owners);
            let mut others = owners.iter().filter(|(k, _)| k.0 == id && k.1 != owner);
            if let (Some((_, o)), None) = (others.next(), others.next()) {
                f.pid = o.pid;
            }
        } else if let Some(f) = &mut found {
            // A process of this node means nothing where the mount is.
            f.pid = 0;
        }
        Ok(Reply::Lock(found))
    }

    /// Without waiting. `Err(AGAIN)`: somebody has it.
    pub fn setlk(&self, id: u64, file: u64, owner: u64, range: &Range) -> Res<Reply> {
        if range.kind == libc::F_UNLCK && !lock(&self.locks.owners).contains_key(&(id, owner)) {
            return Ok(Reply::Done);
        }
        let open = self.files.get(file)?;
        // What the program's own description does not allow is EBADF, as fcntl(2) says; the mount's kernel checks it.
        let o = self.owner(id, file, owner, range)?;
        drop(open);
        sys::set_lock(&o.file, range, false).map_err(errno)?;
        Ok(Reply::Done)
    }

    pub fn flock(&self, file: u64, kind: i32) -> Res<Reply> {
        let open = self.files.get(file)?;
        sys::flock(&open.file, kind, false).map_err(errno)?;
        Ok(Reply::Done)
    }

    /// Waits in a thread of its own; `finish` gets the result.
    pub fn wait_range(
        self: &Arc<Self>,
        request: u64,
        (id, file, owner): (u64, u64, u64),
        range: Range,
        finish: impl FnOnce(Res<Reply>) + Send + 'static,
    ) {
        match self.owner(id, file, owner, &range) {
            Err(e) => finish(Err(e)),
            Ok(o) => self.wait_for(
                request,
                move || sys::set_lock(&o.file, &range, true),
                finish,
            ),
        }
    }

    pub fn wait_flock(
        self: &Arc<Self>,
        request: u64,
        file: u64,
        kind: i32,
        finish: impl FnOnce(Res<Reply>) + Send + 'static,
    ) {
        match self.files.get(file) {
            Err(e) => finish(Err(e)),
            Ok(open) => self.wait_for(request, move || sys::flock(&open.file, kind, true), finish),
        }
    }

    fn wait_for(
        self: &Arc<Self>,
        request: u64,
        call: impl Fn() -> std::io::Result<()> + Send + 'static,
        finish: impl FnOnce(Res<Reply>) + Send + 'static,
    ) {
        let w = Arc::new(Wait::default());
        {
            let mut waits = lock(&self.locks.waits);
            if waits.len() >= WAITS_MAX {
                drop(waits);
                return finish(Err(Errno::NOLCK));
            }
            waits.insert(request, w.clone());
        }
        // The thread must not keep the session: its end cancels the wait.
        let session = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("mfs-lock".into());
        let began = thread.spawn(move || {
            let end = w.run(call);
            if let Some(s) = session.upgrade() {
                lock(&s.locks.waits).remove(&request);
            }
            finish(end);
        });
        if began.is_err() {
            lock(&self.locks.waits).remove(&request);
        }
    }
}
