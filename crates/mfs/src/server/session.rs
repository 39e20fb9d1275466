//! What one mount of one user has here: its files, locks and names, for as long as its streams last and a minute more.

use crate::protocol::{Identity, Lane, Reply, Request, encode};
use crate::server::inodes::Inodes;
use crate::server::locks::Locks;
use crate::server::opens::Files;
use crate::server::pool::Pool;
use crate::server::res::Res;
use crate::server::shown::Shown;
use crate::server::watch::Watch;
use crate::sync::lock;
use armento_link::Writer;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Replies that are kept for requests that must not be made twice: twice what a mount has on its way at most.
const REPLIES_MAX: usize = 8192;
/// Bytes of scratch before the data of a read: prefix and message.
const FRONT: usize = 32;

/// What is done by another thread, with that thread's scratch.
type Later = Box<dyn FnOnce(&Arc<Session>, &mut Vec<u8>) + Send>;

pub type Out = Mutex<Writer>;

#[derive(Default)]
struct Done {
    replies: HashMap<u64, Arc<Vec<u8>>>,
    order: VecDeque<u64>,
    running: HashSet<u64>,
}

pub struct Session {
    pub epoch: u64,
    pub shown: Shown,
    pub inodes: Inodes,
    pub files: Files,
    pub locks: Locks,
    pub watch: Option<Arc<Watch>>,
    /// Effective user and group of this process.
    pub ids: (u32, u32),
    /// Lengths of symbolic links' targets as the mount shows them.
    pub links: Mutex<HashMap<Identity, u64>>,
    pool: Pool,
    lanes: Mutex<[Option<Arc<Out>>; 2]>,
    done: Mutex<Done>,
    /// Since when it has no stream.
    pub alone: Mutex<Option<Instant>>,
}

/// A stream that fails is noticed by who reads from it.
pub fn send(w: &mut Writer, frame: &[u8]) {
    let _ = w.write_all(frame).and_then(|()| w.flush());
}

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Names => 0,
        Lane::Bytes => 1,
    }
}

impl Session {
    pub fn new(epoch: u64, shown: Shown, inodes: Inodes, watch: Option<Arc<Watch>>) -> Session {
        Session {
            epoch,
            shown,
            inodes,
            files: Files::default(),
            locks: Locks::default(),
            watch,
            ids: crate::sys::effective_ids(),
            links: Mutex::default(),
            pool: Pool::default(),
            lanes: Mutex::default(),
            done: Mutex::default(),
            alone: Mutex::new(None),
        }
    }

    pub fn is_root(&self) -> bool {
        self.ids.0 == 0
    }

    pub fn names_lane(&self) -> Option<Arc<Out>> {
        lock(&self.lanes)[0].clone()
    }

    /// A stream begins, or replaces a broken one.
    pub fn attach(&self, lane: Lane, out: Arc<Out>) {
        lock(&self.lanes)[index(lane)] = Some(out);
        *lock(&self.alone) = None;
    }

    pub fn detach(&self, lane: Lane, out: &Arc<Out>) {
        let mut lanes = lock(&self.lanes);
        let l = &mut lanes[index(lane)];
        if l.as_ref().is_some_and(|l| Arc::ptr_eq(l, out)) {
            *l = None;
            if let (Lane::Names, Some(w)) = (lane, &self.watch) {
                // The mount dropped what it kept when the stream broke.
                w.clear();
            }
        }
        if lanes.iter().all(Option::is_none) {
            *lock(&self.alone) = Some(Instant::now());
        }
    }

    pub fn forget(&self, id: u64, times: u64) {
        if self.inodes.forget(id, times)
            && let Some(w) = &self.watch
        {
            w.forget(id);
        }
    }

    /// Carries a request out, now or in another thread, and answers it.
    pub fn handle(
        self: &Arc<Self>,
        lane: Lane,
        id: u64,
        r: Request,
        data: &[u8],
        scratch: &mut Vec<u8>,
    ) {
        match &r {
            Request::Forget(list) => return list.iter().for_each(|(id, n)| self.forget(*id, *n)),
            Request::Cancel(other) => return self.locks.cancel(*other),
            Request::Read { file, at, len } => {
                return self.handle_read(lane, id, (*file, *at, *len), scratch);
            }
            _ => {}
        }
        let once = r.once();
        if once && !self.begin(lane, id) {
            return;
        }
        match r {
            Request::Setlk {
                node,
                file,
                owner,
                range,
                wait: true,
            } => {
                let me = self.clone();
                let finish = move |end| me.finish(lane, id, end, true);
                self.wait_range(id, (node, file, owner), range, finish);
            }
            Request::Flock {
                file,
                kind,
                wait: true,
            } => {
                let me = self.clone();
                self.wait_flock(id, file, kind, move |end| me.finish(lane, id, end, true));
            }
            Request::Fsync { .. }
            | Request::Fallocate { .. }
            | Request::CopyRange { .. }
            | Request::Lseek { .. } => {
                self.in_pool(
                    Box::new(move |me, _| {
                        let end = me.slow_call(&r);
                        me.finish(lane, id, end, once);
                    }),
                    scratch,
                );
            }
            _ if lane == Lane::Names => {
                // Held over the call: what the mount keeps is told of in the order in which it changed.
                let out = self.names_lane();
                let held = out.as_ref().map(|o| lock(o));
                let (reply, bytes) = self.call(&r, data);
                self.answer(id, &reply, &bytes, once, held);
            }
            _ => {
                let (reply, bytes) = self.call(&r, data);
                let out = lock(&self.lanes)[index(lane)].clone();
                self.answer(id, &reply, &bytes, once, out.as_ref().map(|o| lock(o)));
            }
        }
    }

    fn in_pool(self: &Arc<Self>, job: Later, scratch: &mut Vec<u8>) {
        let me = self.clone();
        if let Err(job) = self.pool.run(Box::new(move |scratch| job(&me, scratch))) {
            job(scratch);
        }
    }

    /// False if it was made, or is being made: its reply is sent again.
    fn begin(&self, lane: Lane, id: u64) -> bool {
        let mut d = lock(&self.done);
        if let Some(frame) = d.replies.get(&id).cloned() {
            drop(d);
            if let Some(out) = lock(&self.lanes)[index(lane)].clone() {
                send(&mut lock(&out), &frame);
            }
            return false;
        }
        d.running.insert(id)
    }

    fn finish(&self, lane: Lane, id: u64, end: Res<Reply>, once: bool) {
        let reply = end.unwrap_or_else(|e| Reply::Error(e.raw_os_error()));
        let out = lock(&self.lanes)[index(lane)].clone();
        self.answer(id, &reply, b"", once, out.as_ref().map(|o| lock(o)));
    }

    fn answer(
        &self,
        id: u64,
        reply: &Reply,
        data: &[u8],
        once: bool,
        out: Option<MutexGuard<'_, Writer>>,
    ) {
        let frame = encode(id, reply, data);
        let frame = if once {
            let frame = Arc::new(frame);
            let mut d = lock(&self.done);
            d.running.remove(&id);
            d.replies.insert(id, frame.clone());
            d.order.push_back(id);
            if d.order.len() > REPLIES_MAX
                && let Some(old) = d.order.pop_front()
            {
                d.replies.remove(&old);
            }
            frame
        } else {
            Arc::new(frame)
        };
        if let Some(mut w) = out {
            send(&mut w, &frame);
        }
    }

    fn handle_read(
        self: &Arc<Self>,
        lane: Lane,
        id: u64,
        (file, at, len): (u64, u64, u32),
        scratch: &mut Vec<u8>,
    ) {
        let len = (len as usize).min(crate::protocol::DATA_MAX);
        match self.read_into(lane, id, (file, at, len), scratch, true) {
            Err(Errno::AGAIN) => self.in_pool(
                Box::new(move |me, scratch| {
                    if let Err(e) = me.read_into(lane, id, (file, at, len), scratch, false) {
                        me.finish(lane, id, Err(e), false);
                    }
                }),
                scratch,
            ),
            Err(e) => self.finish(lane, id, Err(e), false),
            Ok(()) => {}
        }
    }

    /// Reads right behind the frame's beginning, and sends both at once.
    fn read_into(
        &self,
        lane: Lane,
        id: u64,
        (file, at, len): (u64, u64, usize),
        scratch: &mut Vec<u8>,
        now: bool,
    ) -> Res<()> {
        if scratch.len() < FRONT + len {
            scratch.resize(FRONT + len, 0);
        }
        let n = self.read(file, at, &mut scratch[FRONT..FRONT + len], now)?;
        let front = encode(id, &Reply::Data, b"");
        let start = FRONT - front.len();
        scratch[start..FRONT].copy_from_slice(&front);
        let total = (front.len() + n - 4) as u32;
        scratch[start..start + 4].copy_from_slice(&total.to_le_bytes());
        if let Some(out) = lock(&self.lanes)[index(lane)].clone() {
            send(&mut lock(&out), &scratch[start..FRONT + n]);
        }
        Ok(())
    }

    /// Requests that take little time. The bytes go with [`Reply::Data`].
    fn call(&self, r: &Request, data: &[u8]) -> (Reply, Vec<u8>) {
        let bytes = match r {
            Request::Readlink { node } => Some(self.readlink(*node)),
            Request::Getxattr { node, name } => Some(self.getxattr(*node, name)),
            Request::Listxattr { node } => Some(self.listxattr(*node)),
            _ => None,
        };
        match bytes {
            Some(Ok(b)) => (Reply::Data, b),
            Some(Err(e)) => (Reply::Error(e.raw_os_error()), Vec::new()),
            None => {
                let reply = self.plain_call(r, data);
                (
                    reply.unwrap_or_else(|e| Reply::Error(e.raw_os_error())),
                    Vec::new(),
                )
            }
        }
    }

    fn plain_call(&self, r: &Request, data: &[u8]) -> Res<Reply> {
        match r {
            Request::Ping => Ok(Reply::Done),
            Request::Resolve { names, want } => self.resolve(names, want),
            Request::Lookup { dir, name } => self.lookup(*dir, name),
            Request::Getattr { node, file } => self.getattr(*node, *file),
            Request::Setattr { node, file, set } => self.setattr(*node, *file, set),
            Request::Symlink {
                dir,
                name,
                target,
                who,
            } => self.symlink(*dir, name, target, *who),
            Request::Mknod {
                dir,
                name,
                mode,
                rdev,
                who,
            } => self.mknod(*dir, name, *mode, *rdev, *who),
            Request::Mkdir {
                dir,
                name,
                mode,
                who,
            } => self.mkdir(*dir, name, *mode, *who),
            Request::Unlink { dir, name } => self.unlink(*dir, name, AtFlags::empty()),
            Request::Rmdir { dir, name } => self.unlink(*dir, name, AtFlags::REMOVEDIR),
            Request::Rename {
                dir,
                name,
                to,
                new,
                flags,
            } => self.rename(*dir, name, *to, new, *flags),
            Request::Link { node, dir, name } => self.link(*node, *dir, name),
            Request::Open { node, flags, kill } => self.open(*node, *flags, *kill),
            Request::Create {
                dir,
                name,
                flags,
                mode,
                kill,
                who,
            } => self.create(*dir, name, *flags, *mode, *kill, *who),
            Request::Tmpfile {
                dir,
                flags,
                mode,
                who,
            } => self.tmpfile(*dir, *flags, *mode, *who),
            Request::Write { file, at, kill } => self.write(*file, *at, data, *kill),
            Request::Close { file } => {
                drop(self.files.close(*file));
                Ok(Reply::Done)
            }
            Request::Opendir { node } => self.opendir(*node),
            Request::Readdir { file, at, plus } => self.readdir(*file, *at, *plus),
            Request::Statfs { node } => self.statfs(*node),
            Request::Setxattr {
                node,
                name,
                flags,
                kill_sgid,
            } => self.setxattr(*node, name, data, *flags, *kill_sgid),
            Request::Removexattr { node, name } => self.removexattr(*node, name),
            Request::Getlk {
                node,
                file,
                owner,
                range,
            } => self.getlk(*node, *file, *owner, range),
            Request::Setlk {
                node,
                file,
                owner,
                range,
                ..
            } => self.setlk(*node, *file, *owner, range),
            Request::Unlock { node, owner } => {
                self.locks.unlock(*node, *owner);
                Ok(Reply::Done)
            }
            Request::Flock { file, kind, .. } => self.flock(*file, *kind),
            r => self.slow_call(r),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.files.count() > 0 || self.locks.count() > 0
    }
}
