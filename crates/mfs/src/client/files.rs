//! Open files: reads, writes that are answered before they are made, locks.
//!
//! A write is *posted*: sent, and answered at once, while a window of bytes is not full and the disk has room. What the
//! server says of it comes with the next write, fsync or close. Everything else about that file goes behind it on the
//! same stream.

use crate::client::core::{Batch, Core, Link, Open, OpenState};
use crate::client::keep::Change;
use crate::client::lane::{self, Frame};
use crate::client::link::WINDOW;
use crate::client::table::{Of, Version};
use crate::fuse::{self, Args, Head, entry_out};
use crate::protocol::{Lane, Range, Reply, Request, encode, encode_before};
use crate::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Longer reads go on the stream of bytes.
const SHORT_READ: u32 = 16 << 10;
/// Longer writes are not copied.
const LONG_WRITE: usize = 64 << 10;
/// Open files of a mount at most.
const OPENS_MAX: usize = 1 << 20;

/// What is to be written.
enum Data<'a> {
    Bytes(&'a [u8]),
    /// So many bytes at this place of a buffer, behind the request of which they were part.
    At(Vec<u8>, usize, usize),
}

impl Data<'_> {
    fn len(&self) -> usize {
        match self {
            Data::Bytes(b) => b.len(),
            Data::At(_, _, len) => *len,
        }
    }

    fn frame(self, id: u64, r: &Request) -> Frame {
        match self {
            Data::Bytes(b) => encode(id, r, b).into(),
            Data::At(mut buf, at, len) => match encode_before(&mut buf, at, len, id, r) {
                Some(start) => Frame::within(buf, start..at + len),
                None => encode(id, r, &buf[at..at + len]).into(),
            },
        }
    }
}

/// struct fuse_open_out.
fn open_out(fh: u64, flags: u32) -> [u8; 16] {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&fh.to_le_bytes());
    b[8..12].copy_from_slice(&flags.to_le_bytes());
    b
}

fn written(n: u32) -> [u8; 8] {
    u64::from(n).to_le_bytes()
}

impl Core {
    /// Remembers an open file: the kernel's number for it.
    fn opened(
        &self,
        n: u64,
        link: &Arc<Link>,
        (of, file): (Of, u64),
        flags: i32,
        dir: bool,
        roomy: bool,
    ) -> Option<u64> {
        let fh = self.next_open.fetch_add(1, Relaxed);
        let open = Open {
            n,
            link: link.clone(),
            flags,
            dir,
            roomy: AtomicBool::new(roomy),
            state: Mutex::new(OpenState {
                of,
                file,
                error: 0,
                locked: false,
                flocked: false,
            }),
            batch: Mutex::default(),
        };
        let mut opens = lock(&self.opens);
        if opens.len() >= OPENS_MAX {
            return None;
        }
        opens.insert(fh, Arc::new(open));
        drop(opens);
        link.counters.open.fetch_add(1, Relaxed);
        if let Some(i) = lock(&self.table).get_mut(n) {
            i.opens += 1;
        }
        Some(fh)
    }

    pub fn get_open(&self, fh: u64) -> Option<Arc<Open>> {
        lock(&self.opens).get(&fh).cloned()
    }

    /// Calls `f` with an open file and what its server calls it; if the server is another one since, the file is opened
    /// again there, if it is the same.
    pub fn on_file(
        self: &Arc<Self>,
        unique: u64,
        fh: u64,
        f: impl FnOnce(&Arc<Core>, &Arc<Open>, u64) + Send + 'static,
    ) {
        let Some(open) = self.get_open(fh) else {
            return self.error(unique, libc::EBADF);
        };
        if let Some(file) = open.current() {
            return f(self, &open, file);
        }
        let link = open.link.clone();
        self.on_link(&link, open.n, move |core, link, end| {
            let id = match end {
                Ok(id) => id,
                Err(e) => return core.error(unique, e),
            };
            let Some(of) = link.up() else {
                return core.error(unique, libc::EHOSTUNREACH);
            };
            if let Some(file) = open.current() {
                return f(core, &open, file);
            }
            if lock(&open.state).locked {
                // Somebody else may have had them meanwhile.
                return core.error(unique, libc::EIO);
            }
            let r = match open.dir {
                true => Request::Opendir { node: id },
                false => Request::Open {
                    node: id,
                    flags: (open.flags & !libc::O_TRUNC) as u32,
                    kill: false,
                },
            };
            link.call(core, Lane::Names, 0, &r, b"", move |core, end| match end {
                Ok((Reply::Opened { file, .. }, _)) => {
                    {
                        let mut s = lock(&open.state);
                        (s.of, s.file) = (of, file);
                    }
                    *lock(&open.batch) = Batch::default();
                    f(core, &open, file);
                }
                Ok(_) => core.error(unique, libc::EIO),
                Err(e) => core.error(unique, e),
            });
        });
    }

    pub fn open(self: &Arc<Self>, h: &Head, mut a: Args<'_>, dir: bool) {
        let (flags, open_flags) = (a.u32() as i32, a.u32());
        let (n, unique, uid) = (h.node, h.unique, h.uid);
        self.on(h, n, move |core, link, id| {
            let (link, node) = (link.clone(), link.node);
            core.after_others(node, uid, move |core| {
                let r = match dir {
                    true => Request::Opendir { node: id },
                    false => Request::Open {
                        node: id,
                        flags: flags as u32,
                        kill: open_flags & fuse::OPEN_KILL != 0,
                    },
                };
                let Some(of) = link.up() else {
                    return core.error(unique, libc::EHOSTUNREACH);
                };
                let me = link.clone();
                link.call(
                    core,
                    core.lane(n),
                    unique,
                    &r,
                    b"",
                    move |core, end| match end {
                        Ok((
                            Reply::Opened {
                                file,
                                attr,
                                direct,
                                roomy,
                                settled,
                            },
                            _,
                        )) => {
                            let Some(fh) = core.opened(n, &me, (of, file), flags, dir, roomy)
                            else {
                                return core.error(unique, libc::ENFILE);
                            };
                            let mut how = 0;
                            if direct || flags & libc::O_APPEND != 0 {
                                how |= fuse::fopen::DIRECT_IO;
                            }
                            if let Some(i) = lock(&core.table).get_mut(n).filter(|_| !dir) {
                                let now = Version::of(&attr);
                                if settled && i.seen == Some(now) && i.posts == 0 {
                                    how |= fuse::fopen::KEEP_CACHE;
                                }
                                let keeps = settled && flags & libc::O_TRUNC == 0 && i.posts == 0;
                                i.seen = keeps.then_some(now);
                            }
                            core.device.reply(unique, 0, &[&open_out(fh, how)]);
                        }
                        Ok(_) => core.error(unique, libc::EIO),
                        Err(e) => core.error(unique, e),
                    },
                );
            });
        });
    }

    pub fn create(self: &Arc<Self>, h: &Head, mut a: Args<'_>, tmp: bool) {
        let (flags, mode, umask, open_flags) = (a.u32(), a.u32(), a.u32(), a.u32());
        let name = a.name().to_vec();
        let (dir, unique, pid) = (h.node, h.unique, h.pid);
        let who = crate::protocol::Who { gid: h.gid, umask };
        self.on(h, dir, move |core, link, id| {
            let r = match tmp {
                true => Request::Tmpfile {
                    dir: id,
                    flags,
                    mode,
                    who,
                },
                false => Request::Create {
                    dir: id,
                    name: name.clone(),
                    flags,
                    mode,
                    kill: open_flags & fuse::OPEN_KILL != 0,
                    who,
                },
            };
            let Some(of) = link.up() else {
                return core.error(unique, libc::EHOSTUNREACH);
            };
            let me = link.clone();
            let lane = core.lane_of_name(dir, &name);
            link.call(core, lane, unique, &r, b"", move |core, end| {
                let (entry, file, roomy) = match end {
                    Ok((
                        Reply::Created {
                            mut entry,
                            file,
                            roomy,
                        },
                        _,
                    )) => {
                        entry.name_kept &= lane == Lane::Names;
                        entry.attr_kept &= lane == Lane::Names;
                        (entry, file, roomy)
                    }
                    Ok(_) => return core.error(unique, libc::EIO),
                    Err(e) => return core.error(unique, e),
                };
                let at = if tmp {
                    (0, &b"\0"[..])
                } else {
                    (dir, &name[..])
                };
                let n = core.enter(&me, of, &entry, Some(at), true);
                let Some(fh) = core.opened(n, &me, (of, file), flags as i32, false, roomy) else {
                    return core.error(unique, libc::ENFILE);
                };
                if let Some(i) = lock(&core.table).get_mut(n) {
                    i.seen = None;
                }
                let how = match flags as i32 & libc::O_APPEND {
                    0 => 0,
                    _ => fuse::fopen::DIRECT_IO,
                };
                if !tmp {
                    core.made(pid, me.node);
                }
                core.settle(&me, n, entry, move |core, node, n, e| {
                    let a = core.attributes(node, n, &e.attr);
                    let entry = entry_out(&a, core.times(&e));
                    core.device.reply(unique, 0, &[&entry, &open_out(fh, how)]);
                });
            });
        });
    }

    pub fn release(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let fh = a.u64();
        self.done(h.unique);
        let Some(open) = lock(&self.opens).remove(&fh) else {
            return;
        };
        open.link.counters.open.fetch_sub(1, Relaxed);
        if let Some(file) = open.current() {
            if lock(&open.state).flocked {
                let r = Request::Flock {
                    file,
                    kind: libc::F_UNLCK,
                    wait: false,
                };
                open.link.call(self, Lane::Names, 0, &r, b"", |_, _| ());
            }
            let lane = self.lane(open.n);
            open.link
                .call(self, lane, 0, &Request::Close { file }, b"", |_, _| ());
            let unused = lock(&open.batch).drain_ids();
            if !unused.is_empty() {
                open.link.forget(lock(&open.state).of, unused);
            }
        }
        let gone = lock(&self.table).closed(open.n);
        self.forgotten(gone);
    }

    pub fn read(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (fh, at, len) = (a.u64(), a.u64(), a.u32());
        let unique = h.unique;
        self.on_file(unique, fh, move |core, open, file| {
            let open = open.clone();
            core.after_others(open.link.node, open.link.uid, move |core| {
                let lane = match len {
                    0..=SHORT_READ => core.lane(open.n),
                    _ => Lane::Bytes,
                };
                let me = open.link.clone();
                let r = Request::Read { file, at, len };
                open.link
                    .call(core, lane, unique, &r, b"", move |core, end| match end {
                        Ok((_, data)) => {
                            me.counters.read.fetch_add(data.len() as u64, Relaxed);
                            core.device
                                .reply(unique, 0, &[&data[..data.len().min(len as usize)]]);
                        }
                        Err(e) => core.error(unique, e),
                    });
            });
        });
    }

    /// `buf[..n]` is the request. Long data stays where it is; another buffer is put in its place.
    pub fn write(self: &Arc<Self>, h: &Head, buf: &mut Vec<u8>, n: usize) {
        self.called(h);
        let Some((_, mut a)) = Head::parse(&buf[..n]) else {
            return;
        };
        let (fh, at, size, write_flags) = (a.u64(), a.u64(), a.u32() as usize, a.u32());
        a.skip(16);
        let data = a.take(size);
        let (unique, size) = (h.unique, data.len());
        let kill = write_flags & fuse::WRITE_KILL != 0;
        match self.get_open(fh).map(|o| (o.current(), o)) {
            Some((Some(file), open)) if size >= LONG_WRITE => {
                let buf = std::mem::replace(buf, lane::buffer());
                let data = Data::At(buf, n - size, size);
                self.write_to(unique, &open, file, at, data, kill);
            }
            Some((Some(file), open)) => {
                self.write_to(unique, &open, file, at, Data::Bytes(data), kill);
            }
            _ => {
                let data = data.to_vec();
                self.on_file(unique, fh, move |core, open, file| {
                    core.write_to(unique, open, file, at, Data::Bytes(&data), kill);
                });
            }
        }
    }

    fn write_to(
        self: &Arc<Self>,
        unique: u64,
        open: &Arc<Open>,
        file: u64,
        at: u64,
        data: Data<'_>,
        kill: bool,
    ) {
        let link = &open.link;
        let e = open.take_error();
        if e != 0 {
            return self.error(unique, e);
        }
        let len = data.len();
        let strict = libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT;
        let post = open.roomy.load(Relaxed)
            && open.flags & strict == 0
            && link.posted.load(Relaxed) + len <= WINDOW;
        if post {
            link.posted.fetch_add(len, Relaxed);
            lock(&self.table).posted(open.n);
        } else if let Some(i) = lock(&self.table).get_mut(open.n) {
            i.seen = None;
        }
        let me = open.clone();
        let r = Request::Write { file, at, kill };
        let caller = if post { 0 } else { unique };
        link.send(
            self,
            Lane::Bytes,
            caller,
            false,
            |id| data.frame(id, &r),
            move |core, end| {
                let end = match end {
                    Ok((Reply::Written { len: n, why, roomy }, _)) => {
                        me.roomy.store(roomy, Relaxed);
                        me.link.counters.written.fetch_add(n.into(), Relaxed);
                        Ok((n, why))
                    }
                    Ok(_) => Err(libc::EIO),
                    Err(e) => Err(e),
                };
                if post {
                    match end {
                        Ok((n, why)) if (n as usize) < len => {
                            me.fail(if why == 0 { libc::EIO } else { why })
                        }
                        Ok(_) => {}
                        // What was said to be written is not.
                        Err(libc::EHOSTUNREACH | libc::EINTR) => me.fail(libc::EIO),
                        Err(e) => me.fail(e),
                    }
                    me.link.posted.fetch_sub(len, Relaxed);
                    let gone = lock(&core.table).made(me.n);
                    core.forgotten(gone);
                } else {
                    match end {
                        Ok((n, _)) => core.device.reply(unique, 0, &[&written(n)]),
                        Err(e) => core.error(unique, e),
                    }
                }
            },
        );
        if post {
            self.device.reply(unique, 0, &[&written(len as u32)]);
        }
    }

    /// Answers with the error of a posted write, or with none.
    fn answer_posted(&self, unique: u64, open: &Open) {
        self.error(unique, open.take_error());
    }

    pub fn flush(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let fh = a.u64();
        a.skip(8);
        let owner = a.u64();
        let unique = h.unique;
        let Some(open) = self.get_open(fh) else {
            return self.error(unique, libc::EBADF);
        };
        let (posting, locks) = {
            let mut t = lock(&self.table);
            match t.get_mut(open.n) {
                Some(i) => (i.posts > 0, i.owners.remove(&owner)),
                None => (false, false),
            }
        };
        if !posting && !locks {
            return self.answer_posted(unique, &open);
        }
        let id = open
            .link
            .up()
            .and_then(|of| lock(&self.table).id(open.n, of));
        let r = match id.filter(|_| locks) {
            Some(node) => Request::Unlock { node, owner },
            None => Request::Ping,
        };
        let lane = if posting { Lane::Bytes } else { Lane::Names };
        let link = open.link.clone();
        link.call(self, lane, unique, &r, b"", move |core, end| {
            if end.is_err() && posting {
                open.fail(libc::EIO);
            }
            core.answer_posted(unique, &open);
        });
    }

    pub fn fsync(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (fh, flags) = (a.u64(), a.u32());
        let unique = h.unique;
        self.on_file(unique, fh, move |core, open, file| {
            let r = Request::Fsync {
                file,
                data_only: flags & fuse::FSYNC_DATA != 0,
            };
            let me = open.clone();
            open.link
                .call(core, Lane::Bytes, unique, &r, b"", move |core, end| {
                    // That of a write that was answered before, first: it is told of once.
                    let posted = me.take_error();
                    let own = end.err().unwrap_or(0);
                    core.error(unique, if posted != 0 { posted } else { own });
                });
        });
    }

    pub fn fallocate(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (fh, at, len, mode) = (a.u64(), a.u64(), a.u64(), a.u32());
        let unique = h.unique;
        self.on_file(unique, fh, move |core, open, file| {
            if let Some(i) = lock(&core.table).get_mut(open.n) {
                i.seen = None;
            }
            let r = Request::Fallocate {
                file,
                at,
                len,
                mode,
            };
            open.link.call(
                core,
                Lane::Bytes,
                unique,
                &r,
                b"",
                move |core, end| match end {
                    Ok(_) => core.done(unique),
                    Err(e) => core.error(unique, e),
                },
            );
        });
    }

    pub fn lseek(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (fh, at, whence) = (a.u64(), a.u64(), a.u32());
        let unique = h.unique;
        self.on_file(unique, fh, move |core, open, file| {
            let r = Request::Lseek { file, at, whence };
            open.link.call(
                core,
                Lane::Bytes,
                unique,
                &r,
                b"",
                move |core, end| match end {
                    Ok((Reply::Offset(o), _)) => core.device.reply(unique, 0, &[&o.to_le_bytes()]),
                    Ok(_) => core.error(unique, libc::EIO),
                    Err(e) => core.error(unique, e),
                },
            );
        });
    }

    pub fn copy_file_range(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (from, at, _, to, to_at, len) = (a.u64(), a.u64(), a.u64(), a.u64(), a.u64(), a.u64());
        let unique = h.unique;
        let Some(other) = self.get_open(to) else {
            return self.error(unique, libc::EBADF);
        };
        self.on_file(unique, from, move |core, open, file| {
            // The caller's kernel copies by reading and writing then.
            let Some(to) = other
                .current()
                .filter(|_| Arc::ptr_eq(&open.link, &other.link))
            else {
                return core.error(unique, libc::EXDEV);
            };
            if let Some(i) = lock(&core.table).get_mut(other.n) {
                i.seen = None;
            }
            let r = Request::CopyRange {
                file,
                at,
                to,
                to_at,
                len,
            };
            open.link.call(
                core,
                Lane::Bytes,
                unique,
                &r,
                b"",
                move |core, end| match end {
                    Ok((Reply::Written { len, .. }, _)) => {
                        core.device.reply(unique, 0, &[&written(len)])
                    }
                    Ok(_) => core.error(unique, libc::EIO),
                    Err(e) => core.error(unique, e),
                },
            );
        });
    }

    pub fn locks(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let (fh, owner) = (a.u64(), a.u64());
        let range = Range {
            start: a.u64(),
            end: a.u64(),
            kind: a.u32() as i32,
            pid: a.u32(),
        };
        let whole = a.u32() & fuse::LK_FLOCK != 0;
        let (op, unique) = (h.op, h.unique);
        self.on_file(unique, fh, move |core, open, file| {
            let id = open
                .link
                .up()
                .and_then(|of| lock(&core.table).id(open.n, of));
            let Some(node) = id else {
                return core.error(unique, libc::EHOSTUNREACH);
            };
            let wait = op == fuse::SETLKW;
            let r = match (op, whole) {
                (fuse::GETLK, _) => Request::Getlk {
                    node,
                    file,
                    owner,
                    range,
                },
                (_, true) => Request::Flock {
                    file,
                    kind: range.kind,
                    wait,
                },
                _ => Request::Setlk {
                    node,
                    file,
                    owner,
                    range,
                    wait,
                },
            };
            let me = open.clone();
            // What was written under a lock is there before the lock ends.
            let lane = if wait { Lane::Names } else { core.lane(open.n) };
            let takes = op != fuse::GETLK && range.kind != libc::F_UNLCK;
            let sent = open
                .link
                .call(core, lane, unique, &r, b"", move |core, end| {
                    lock(&core.waits).remove(&unique);
                    match end {
                        Ok((Reply::Lock(found), _)) => {
                            core.device.reply(unique, 0, &[&lk_out(found)])
                        }
                        Ok(_) if takes => {
                            {
                                let mut s = lock(&me.state);
                                s.locked = true;
                                s.flocked |= whole;
                            }
                            if let Some(i) = lock(&core.table).get_mut(me.n) {
                                if !whole {
                                    i.owners.insert(owner);
                                }
                                i.seen = None;
                            }
                            // What others wrote before they gave the lock back is to be seen.
                            core.keep.send(me.link.node, Change::Pages(me.n, unique));
                        }
                        Ok(_) => core.done(unique),
                        Err(e) => core.error(unique, e),
                    }
                });
            if wait && sent != 0 && open.link.has(unique) {
                lock(&core.waits).insert(unique, (open.link.clone(), sent));
            }
        });
    }

    /// A signal for the process that waits for this call.
    pub fn interrupt(&self, mut a: Args<'_>) {
        let unique = a.u64();
        let wait = lock(&self.waits).get(&unique).cloned();
        match wait {
            Some((link, id)) => link.cancel(id),
            // Calls on files are not interrupted by signals, as they are not on a disk; but a process that is killed
            // does not wait for a node.
            None => {
                let Some(tid) = self.caller(unique) else {
                    return;
                };
                let mut i = lock(&self.interrupted);
                if i.len() < OPENS_MAX {
                    i.insert(unique, (tid, std::time::Instant::now()));
                }
            }
        }
    }
}

/// struct fuse_lk_out.
fn lk_out(found: Option<Range>) -> Vec<u8> {
    let r = found.unwrap_or(Range {
        start: 0,
        end: 0,
        kind: libc::F_UNLCK,
        pid: 0,
    });
    let mut b = r.start.to_le_bytes().to_vec();
    b.extend(r.end.to_le_bytes());
    b.extend((r.kind as u32).to_le_bytes());
    b.extend(r.pid.to_le_bytes());
    b
}
