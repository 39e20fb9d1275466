//! Read-ahead: a guest that reads a file in order gets its bytes in large pieces.
//!
//! From: `readahead_calls.rs`. Next: `keeper/src/calls/readahead.rs`.
//!
//! Home permits it for a regular file whose description no other process has, and holds a lease against writers: what is
//! read ahead cannot change. The description's offset stays behind meanwhile; it is set right before anything that could
//! depend on it, so that no process sees the difference.

use super::forward::send;
use crate::state::ReadCount;
use crate::state::{GuestThread, Host, Listing, Process, Shared, Special, Waiting, WaitingRead};
use crate::sync::lock;
use armento_model::HomePid;
use armento_tracee::notify::Notice;
use armento_wire::talk::{From, READAHEAD_MAX, ServedRead, ToHome};
use std::sync::Arc;

type ReadAhead = crate::state::ReadAhead<WaitingRead>;

type Stream = crate::state::Stream<WaitingRead>;

/// Larger reads are worth their round trip.
const READ_MAX: u64 = 1 << 20;

/// So many reads in order, each filled, before home is asked. A multiple of it after each refusal or end.
const PATIENCE: u32 = 4;

const PATIENCE_MAX: u32 = 1 << 16;

/// Bytes of the first piece; each further one is twice as long, up to [`READAHEAD_MAX`]. The next is asked for when less than
/// half of a piece is left.
pub const PIECE: u32 = 256 << 10;

/// Calls on a descriptor that are told before home sends more of the file: beyond, they go home themselves.
const TOLD_MAX: u32 = 4096;

/// Descriptors of a process that may be read ahead at once.
const STREAMS_MAX: usize = 32;

/// Descriptors whose reads are counted.
const COUNTS_MAX: usize = 64;

/// lseek: answered when it leads to bytes that are here. `false`: it ends the read-ahead, and is forwarded.
pub fn seek(shared: &Shared, thread: &GuestThread, n: &Notice, fd: i32) -> bool {
    let mut a = lock(&thread.proc.readahead);
    let s = a.streams.get_mut(&fd);
    let s = s.filter(|s| s.waiter.is_none() && may_answer(s));
    match s.and_then(|s| s.seek(n.args[1] as i64, n.args[2] as i32).zip(Some(s))) {
        Some((pos, s)) => {
            count_read(thread, 0);
            tell(shared, thread, n, (s, pos as i64));
            shared.listener.reply(n.id, pos as i64);
            true
        }
        None => false,
    }
}

/// pread: answered when its bytes are here.
pub fn read_at(shared: &Shared, thread: &GuestThread, n: &Notice, fd: i32) -> bool {
    let mut a = lock(&thread.proc.readahead);
    let Some(s) = a.streams.get_mut(&fd).filter(|s| may_answer(s)) else {
        return false;
    };
    let bytes = s.at(n.args[3], n.args[2]);
    // The kernel has the right error for memory that cannot be written.
    let Some(bytes) = bytes.filter(|b| thread.write(n.args[1], b)) else {
        return false;
    };
    let len = bytes.len() as u64;
    count_read(thread, len);
    tell(shared, thread, n, (s, len as i64));
    shared.listener.reply(n.id, len as i64);
    true
}

/// Whether home can be told of one more: it was not told of too many since its last word about the file, which it may not have
/// heard yet.
fn may_answer(s: &Stream) -> bool {
    s.told.is_none_or(|told| told < TOLD_MAX)
}

/// Before the answer: what the thread does next goes home behind it.
fn tell(shared: &Shared, thread: &GuestThread, n: &Notice, (s, ret): (&mut Stream, i64)) {
    if let Some(told) = &mut s.told {
        *told += 1;
        shared.home.tell_read(ServedRead {
            tid: thread.tid,
            nr: n.nr as u16,
            args: n.args,
            ret,
        });
    }
}

/// What is read of this descriptor is to be told.
pub fn tell_reads(host: &Host, pid: HomePid, fd: i32) {
    let Some(thread) = host.threads.of_home(pid.leader()) else {
        return;
    };
    let mut a = lock(&thread.proc.readahead);
    if let Some(s) = a.streams.get_mut(&fd).filter(|s| s.new) {
        s.told = Some(0);
    }
}

fn count_read(thread: &GuestThread, bytes: u64) {
    let mut files = lock(&thread.proc.files);
    files.reads += 1;
    files.read_bytes += bytes;
}

/// fstat of a file that was opened just now: as long as home has said nothing since but the open's result, nothing that the
/// program can know is later. `at`: where the result goes.
pub fn stat(host: &Host, thread: &GuestThread, n: &Notice, (fd, at): (i32, u64)) -> bool {
    let a = lock(&thread.proc.readahead);
    let file = a.streams.get(&fd).and_then(|s| s.stat.as_ref());
    let stat = file.or_else(|| a.listings.get(&fd).map(|l| &l.stat));
    let Some((frame, stat)) = stat else {
        return false;
    };
    if stat.is_empty() || !is_fresh(host, *frame) || !thread.write(at, stat) {
        return false;
    }
    count_read(thread, 0);
    host.listener.reply(n.id, 0);
    true
}

/// Whether home has said nothing but an open's result since the frame that brought what is known of it, and has nothing to make
/// that was answered here.
fn is_fresh(host: &Host, frame: u64) -> bool {
    frame > 0 && host.home.session.heard() == frame + 1 && !host.home.posts_pending()
}

/// What the known names say of a directory, if nothing is to be made that was answered here.
pub fn unchanged(host: &Host, l: &Listing) -> Option<u64> {
    let known = lock(&host.names).unchanged(l.id()?);
    known.filter(|_| !host.home.posts_pending())
}

/// getdents64 of a directory that was opened just now, as [`stat`], or whose entries have not changed since. `false`: to be
/// forwarded, and the offset at home is right.
pub fn list(host: &Arc<Host>, thread: &GuestThread, n: &Notice, fd: i32) -> bool {
    let mut a = lock(&thread.proc.readahead);
    let same = |l: &Listing| l.unchanged.is_some() && l.unchanged == unchanged(host, l);
    let known = a
        .listings
        .get_mut(&fd)
        .filter(|l| is_fresh(host, l.stat.0) || same(l));
    // KERNEL: getdents64 takes the length as an unsigned int.
    let room = n.args[2] as u32 as usize;
    let next = known.and_then(|l| Some((l.next(room)?.to_vec(), l)));
    if let Some((entries, l)) = next
        && thread.write(n.args[1], &entries)
    {
        l.listed(entries.len());
        count_read(thread, entries.len() as u64);
        host.listener.reply(n.id, entries.len() as i64);
        return true;
    }
    // The kernel writes as much as fits, and has the right error.
    end(host, thread.pid, &mut a, Some(fd));
    false
}

/// Whether it is a regular file that is read ahead: no terminal.
pub fn is_open(thread: &GuestThread, fd: i32) -> bool {
    let a = lock(&thread.proc.readahead);
    a.streams.get(&fd).is_some_and(|s| s.told.is_none())
}

/// What an open brought of its file.
pub enum Opened {
    File(Stream),
    Directory(Listing),
}

/// A file was opened, and its first bytes have come. `ended`: what [`ReadAhead`] said when that was asked.
pub fn opened(host: &Host, thread: &GuestThread, fd: i32, ended: u64, what: Opened) {
    let mut a = lock(&thread.proc.readahead);
    if a.ended == ended && a.streams.len() + a.listings.len() < STREAMS_MAX {
        match what {
            Opened::File(s) => drop(a.streams.insert(fd, s)),
            Opened::Directory(l) => drop(a.listings.insert(fd, l)),
        }
        return;
    }
    // Another process may have its description by now.
    refuse(host, thread.pid, fd);
}

/// Home gives its lease back, and the offset is where it was.
pub fn refuse(host: &Host, pid: HomePid, fd: i32) {
    host.home.send(&ToHome::Stands {
        pid,
        list: Vec::new(),
        over: vec![fd],
    });
}

/// A read: served, or made to wait for bytes that are on their way. `false`: to be forwarded.
pub fn read(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice, fd: i32) -> bool {
    let mut a = lock(&thread.proc.readahead);
    let here = |s: &Stream| s.waiter.is_none() && may_answer(s) && s.next(n.args[2]).is_some();
    let long = n.args[2] > READ_MAX && !a.streams.get(&fd).is_some_and(here);
    if n.args[2] == 0 || long {
        end(host, thread.pid, &mut a, Some(fd));
        return false;
    }
    let Some(s) = a.streams.get_mut(&fd) else {
        return count(host, thread, n, fd, &mut a);
    };
    if s.waiter.is_some() || !may_answer(s) {
        // Two threads read the same file: the kernel decides in what order. Or enough was told.
        end(host, thread.pid, &mut a, Some(fd));
        return false;
    }
    if let Some(bytes) = s.next(n.args[2]) {
        let len = bytes.len() as u64;
        if !thread.write(n.args[1], bytes) {
            // The kernel writes as much as fits, and has the right error.
            end(host, thread.pid, &mut a, Some(fd));
            return false;
        }
        s.pos += len;
        tell(host, thread, n, (s, len as i64));
        if s.runs_low() {
            ask(host, thread, fd, s, 0);
        }
        drop(a);
        count_read(thread, len);
        lock(&thread.call).again = None;
        host.listener.reply(n.id, len as i64);
        return true;
    }
    if !wait(thread, n, s) {
        end(host, thread.pid, &mut a, Some(fd));
        return false;
    }
    if s.asked.is_none() {
        ask(host, thread, fd, s, n.args[2] as u32);
    }
    true
}

/// The read waits for the answer that is on its way.
fn wait(thread: &Arc<GuestThread>, n: &Notice, s: &mut Stream) -> bool {
    let Some(special) = Special::begin(&thread.proc) else {
        return false;
    };
    lock(&thread.call).waiting = Some(Waiting::Special);
    s.waiter = Some(WaitingRead {
        thread: thread.clone(),
        notice: *n,
        _special: special,
    });
    true
}

/// `least`: a read waits for so many bytes.
fn ask(shared: &Shared, thread: &GuestThread, fd: i32, s: &mut Stream, least: u32) {
    let seq = shared.home.number();
    s.asked = Some(seq);
    s.sent_pos = s.pos;
    let from = (!s.new).then(|| From {
        program: s.pos,
        ahead: s.ahead(),
    });
    // In the process's name: the thread may have ended when the answer comes.
    shared.home.send(&ToHome::Ahead {
        pid: thread.pid,
        seq,
        fd,
        from,
        len: s.piece.max(least),
    });
    s.piece = (s.piece * 2).min(READAHEAD_MAX);
}

/// Counts reads in order; asks home when there were enough.
fn count(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    fd: i32,
    a: &mut ReadAhead,
) -> bool {
    if a.counts.len() >= COUNTS_MAX {
        a.counts.clear();
    }
    let c = a.counts.entry(fd).or_insert(ReadCount {
        reads: 0,
        needed: PATIENCE,
    });
    c.reads += 1;
    if c.reads < c.needed || a.streams.len() >= STREAMS_MAX {
        return false;
    }
    c.reads = 0;
    c.needed = (c.needed * 4).min(PATIENCE_MAX);
    let mut s = Stream::begin(PIECE);
    // Before the request: a freeze must know of the read that waits for the answer.
    if !wait(thread, n, &mut s) {
        return false;
    }
    ask(host, thread, fd, &mut s, 0);
    a.streams.insert(fd, s);
    true
}

/// Bytes from home.
pub struct Piece<'a> {
    pub seq: u32,
    pub fd: i32,
    pub at: Option<u64>,
    pub bytes: &'a [u8],
    pub end: bool,
}

/// Home's answer. One to a request that is over is dropped.
pub fn readahead_came(host: &Arc<Host>, pid: HomePid, p: &Piece<'_>) {
    let Some(thread) = host.threads.of_home(pid.leader()) else {
        return;
    };
    let mut a = lock(&thread.proc.readahead);
    let Some(s) = a.streams.get_mut(&p.fd) else {
        return;
    };
    if s.asked != Some(p.seq) {
        return;
    }
    s.asked = None;
    match p.at {
        Some(at) if s.new => (s.pos, s.sent_pos, s.start, s.new) = (at, at, at, false),
        Some(at) if at == s.ahead() => {
            s.bytes.drain(..(s.pos - s.start) as usize);
            s.start = s.pos;
        }
        _ => return end(host, thread.pid, &mut a, Some(p.fd)),
    }
    s.bytes.extend_from_slice(p.bytes);
    s.end = p.end;
    s.told = s.told.map(|_| 0);
    let Some(w) = s.waiter.take() else { return };
    drop(a);
    lock(&w.thread.call).waiting = None;
    retry(host, &w);
}

/// A read that waited is served, or forwarded.
fn retry(host: &Arc<Host>, w: &WaitingRead) {
    if !read(host, &w.thread, &w.notice, w.notice.args[0] as i32) {
        send(host, &w.thread, &w.notice);
    }
}

/// Nothing is read ahead any more: home is sent the program's position, before any other message.
pub fn end_readahead(host: &Arc<Host>, proc: &Process, pid: HomePid) {
    end(host, pid, &mut lock(&proc.readahead), None);
}

/// Another process wants to write the file.
pub fn end_readahead_of(host: &Arc<Host>, proc: &Process, pid: HomePid, fd: i32) {
    let mut a = lock(&proc.readahead);
    end(host, pid, &mut a, Some(fd));
}

/// Ends it for one descriptor, or all: home gets the position, and reads that wait are forwarded.
pub fn end(host: &Arc<Host>, pid: HomePid, a: &mut ReadAhead, fd: Option<i32>) {
    a.ended += u64::from(fd.is_none());
    let known = a.streams.keys().chain(a.listings.keys()).copied();
    let gone: Vec<i32> = known.filter(|n| fd.is_none_or(|fd| fd == *n)).collect();
    if gone.is_empty() {
        return;
    }
    let (mut list, mut waiters) = (Vec::new(), Vec::new());
    for fd in &gone {
        if let Some(l) = a.listings.remove(fd) {
            list.push((*fd, l.pos));
        }
        if let Some(s) = a.streams.remove(fd) {
            if !s.new {
                list.push((*fd, s.pos));
            }
            waiters.extend(s.waiter);
        }
    }
    host.home.send(&ToHome::Stands {
        pid,
        list,
        over: gone,
    });
    for w in waiters {
        lock(&w.thread.call).waiting = None;
        send(host, &w.thread, &w.notice);
    }
}

/// The descriptor is about to be closed, and its description with it: the offset does not matter any more.
pub fn close(host: &Arc<Host>, pid: HomePid, a: &mut ReadAhead, fd: i32) {
    let idle = |s: &Stream| s.waiter.is_none();
    let known = a.listings.remove(&fd).is_some() || a.streams.get(&fd).is_some_and(idle);
    if !known {
        return end(host, pid, a, Some(fd));
    }
    a.streams.remove(&fd);
    refuse(host, pid, fd);
}

/// At each report: other processes may read /proc/PID/fdinfo.
pub fn send_positions(shared: &Shared, proc: &Process, pid: HomePid) {
    let mut a = lock(&proc.readahead);
    let moved = a.streams.iter_mut().filter(|(_, s)| s.sent_pos != s.pos);
    let mut list: Vec<(i32, u64)> = moved
        .map(|(fd, s)| {
            s.sent_pos = s.pos;
            (*fd, s.pos)
        })
        .collect();
    for (fd, l) in a.listings.iter_mut().filter(|(_, l)| l.sent_pos != l.pos) {
        l.sent_pos = l.pos;
        list.push((*fd, l.pos));
    }
    if !list.is_empty() {
        shared.home.send(&ToHome::Stands {
            pid,
            list,
            over: Vec::new(),
        });
    }
}
