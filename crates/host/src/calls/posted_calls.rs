//! Calls that are answered before home has made them: writes to regular files, and closes.
//!
//! From: `dispatch.rs`. Next: `state/posts.rs`, then `keeper/src/deputy/posts.rs`.
//!
//! Their results are certain: home has said that the descriptor is of a regular file on a local file system with space to
//! spare. Whatever the tree does next goes home behind them, on the same stream, so that no process sees a difference.

use super::readahead::{self, Opened};
use crate::state::{
    BodyMem, GuestThread, Host, Listing, Special, Stream, Target, WRITE_MAX, Way, posted_close,
};
use crate::sync::lock;
use armento_abi::sends;
use armento_model::HomeTid;
use armento_tracee::notify::Notice;
use armento_wire::talk::{Beginning, Device, POSTS_OFFSET_MAX};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What becomes of a call.
pub enum Served {
    /// It was answered.
    Yes,
    /// It goes home; `ask`: home is to say what its descriptor refers to.
    No { ask: bool },
}

pub fn served(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> Served {
    let (proc, fd) = (&thread.proc, n.args[0] as i32);
    let changes = |fd: u64| lock(&proc.descriptors).forget(fd as i32);
    match i64::from(n.nr) {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev => {
            return write(host, thread, n);
        }
        libc::SYS_read => {
            let ask = lock(&proc.descriptors).read(fd);
            return Served::No { ask };
        }
        libc::SYS_close => return close(host, thread, n),
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
            return Served::No { ask: true };
        }
        libc::SYS_dup2 | libc::SYS_dup3 => changes(n.args[1]),
        // Flags of a description, which others may share, decide whether its writes are waited for.
        libc::SYS_fcntl if n.args[1] as i32 == libc::F_SETFL => changes(n.args[0]),
        libc::SYS_fcntl if n.args[1] as i32 == libc::F_ADD_SEALS => changes(n.args[0]),
        // An offset beyond what file systems take; or a file that grows to that.
        libc::SYS_lseek if n.args[1] > POSTS_OFFSET_MAX => changes(n.args[0]),
        libc::SYS_close_range | libc::SYS_setrlimit => lock(&proc.descriptors).forget_all(),
        libc::SYS_prlimit64 if n.args[2] != 0 => lock(&proc.descriptors).forget_all(),
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => {
            let failed = lock(&proc.descriptors).failed(fd);
            if let Some(errno) = failed {
                return answer(host, thread, n, -i64::from(errno));
            }
        }
        _ => {}
    }
    Served::No { ask: false }
}

/// What home says of a descriptor.
pub struct About {
    /// The call that asked.
    pub seq: u32,
    pub fd: i32,
    pub writes: u64,
    pub device: Option<Device>,
}

/// Home's word about the descriptor that a call has made or written to. It comes right before the call's reply.
pub fn descriptor_known(
    host: &Host,
    tid: HomeTid,
    about: About,
    stat: Vec<u8>,
    begin: Option<Beginning>,
) {
    let Some(thread) = host.threads.of_home(tid) else {
        return;
    };
    let asked = lock(&thread.call).asked.filter(|a| a.seq == about.seq);
    let Some(asked) = asked else {
        if begin.is_some() {
            readahead::refuse(host, thread.pid, about.fd);
        }
        return;
    };
    let (fd, now) = (about.fd, Instant::now());
    let what = (about.writes, about.device);
    lock(&thread.proc.descriptors).learn(asked.descriptors, fd, what, now);
    if let Some(b) = begin {
        let stat = (host.home.session.heard(), stat);
        let what = match b.directory {
            true => {
                let mut l = Listing::new(b.bytes, b.end, stat);
                l.unchanged = readahead::unchanged(host, &l);
                Opened::Directory(l)
            }
            false => Opened::File(Stream::opened(readahead::PIECE, b.bytes, b.end, Some(stat))),
        };
        readahead::opened(host, &thread, fd, asked.ended, what);
    }
}

/// A call that gives a descriptor's number to another file has ended: what home said meanwhile may be of either.
pub fn ended(thread: &GuestThread, nr: u16, args: &[u64; 6]) {
    let proc = &thread.proc;
    match i64::from(nr) {
        libc::SYS_dup2 | libc::SYS_dup3 => lock(&proc.descriptors).forget(args[1] as i32),
        libc::SYS_close => lock(&proc.descriptors).forget(args[0] as i32),
        libc::SYS_close_range => lock(&proc.descriptors).forget_all(),
        _ => {}
    }
}

fn answer(host: &Host, thread: &GuestThread, n: &Notice, ret: i64) -> Served {
    lock(&thread.call).again = None;
    host.listener.reply(n.id, ret);
    Served::Yes
}

/// Whether a call that is answered here is the thread's whole business: no part of it was made before, and no signal is to
/// wait at home for its end.
fn plain(thread: &GuestThread) -> bool {
    let st = lock(&thread.call);
    st.done == 0 && thread.proc.signalfds.load(Ordering::Relaxed) == 0
}

fn write(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> Served {
    const WAITED_FOR: Served = Served::No { ask: false };
    let mut mem = BodyMem(thread);
    let Some(w) = sends::file_write(n.nr as u64, &n.args, &mut mem) else {
        return WAITED_FOR;
    };
    if w.len == 0
        || w.len > WRITE_MAX
        || w.at.is_some_and(|at| at > POSTS_OFFSET_MAX)
        || !plain(thread)
    {
        return WAITED_FOR;
    }
    // A move waits until it is sent.
    let Some(_special) = Special::begin(&thread.proc) else {
        return WAITED_FOR;
    };
    let way = lock(&thread.proc.descriptors).write(w.fd, w.len, Instant::now());
    match way {
        Way::Forward { ask } => return Served::No { ask },
        Way::Fail(errno) => return answer(host, thread, n, -i64::from(errno)),
        Way::Post => {}
    }
    let target = Target {
        tid: thread.tid,
        fd: w.fd,
        at: w.at,
    };
    let read = |to: &mut Vec<u8>| sends::append_bytes(n.nr as u64, &n.args, &mut mem, to);
    if !host.home.post_write(target, w.len, read) {
        return WAITED_FOR;
    }
    let mut files = lock(&thread.proc.files);
    files.posted += 1;
    files.posted_bytes += w.len;
    drop(files);
    answer(host, thread, n, w.len as i64)
}

fn close(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> Served {
    let special = Special::begin(&thread.proc).filter(|_| plain(thread));
    let fd = n.args[0] as i32;
    let known = lock(&thread.proc.descriptors).close(fd);
    match (known, special) {
        (Some(result), Some(_special)) => {
            host.home.post(&posted_close(thread.tid, fd));
            lock(&thread.proc.files).posted += 1;
            let ret = result.map_or_else(|errno| -i64::from(errno), |()| 0);
            answer(host, thread, n, ret)
        }
        _ => Served::No { ask: false },
    }
}
