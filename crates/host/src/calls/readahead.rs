//! Read-ahead: a guest that reads a file in order gets its bytes in large pieces.
//!
//! From: `serve.rs`. Next: `keeper/src/ahead.rs`.
//!
//! Home permits it for a regular file whose description nobody else has, and holds a lease against writers:
//! what is read ahead cannot change. The description's offset stays behind meanwhile; it is set right before
//! anything that could depend on it, so that nobody sees the difference.

use crate::calls::forward;
use crate::state::shared::{Cell, Proc, Shared, Special, Waiting, lock};
use armento_model::Pid;
use armento_tracee::notify::Notice;
use armento_wire::talk::{From, ToHome};
use std::collections::HashMap;
use std::sync::Arc;

/// Larger reads are worth their round trip.
const READ_MAX: u64 = 64 << 10;
/// So many reads in order, each filled, before home is asked. A multiple of it after each refusal or end.
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 1 << 16;
/// The next piece is asked for when less than this is left.
const LOW: u64 = 128 << 10;
/// Descriptors of a process that may be read ahead at once.
const STREAMS_MAX: usize = 8;
/// Descriptors whose reads are counted.
const COUNTS_MAX: usize = 64;

/// What a process reads ahead.
#[derive(Default)]
pub struct Ahead {
    streams: HashMap<i32, Stream>,
    counts: HashMap<i32, Count>,
}

struct Count {
    reads: u32,
    needed: u32,
}

#[derive(Default)]
struct Stream {
    /// Where the program stands in the file.
    pos: u64,
    /// What home was told last.
    told: u64,
    /// File offset of the first byte of `bytes`.
    start: u64,
    bytes: Vec<u8>,
    /// The file ends with them.
    end: bool,
    /// The number of the question that is on its way.
    asked: Option<u32>,
    /// Nothing came yet: whether it is permitted is not known.
    new: bool,
    /// The read that waits for it.
    waiter: Option<Waiter>,
}

struct Waiter {
    cell: Arc<Cell>,
    n: Notice,
    _special: Special,
}

impl Stream {
    fn ahead(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The next `want` bytes, or fewer at the file's end.
    fn next(&self, want: u64) -> Option<&[u8]> {
        let at = (self.pos - self.start) as usize;
        let left = self.bytes.len() - at;
        let whole = left as u64 >= want || self.end;
        (!self.new && whole).then(|| &self.bytes[at..at + left.min(want as usize)])
    }
}

/// Serves a call from what is known. `false`: it is to go its usual way, for which everything is prepared.
pub fn served(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) -> bool {
    let fd = n.args[0] as i32;
    match i64::from(n.nr) {
        libc::SYS_read => return read(sh, cell, n, fd),
        libc::SYS_lseek if n.args[1] == 0 && n.args[2] as i32 == libc::SEEK_CUR => {
            return tell(sh, cell, n, fd);
        }
        libc::SYS_lseek | libc::SYS_close => {
            let mut a = lock(&cell.proc.ahead);
            a.counts.remove(&fd);
            end(sh, cell.pid, &mut a, Some(fd));
        }
        // It would not wait for our lease to be given up, if it is of the same file.
        libc::SYS_open if n.args[1] as i32 & libc::O_NONBLOCK != 0 => {
            over(sh, &cell.proc, cell.pid)
        }
        libc::SYS_openat if n.args[2] as i32 & libc::O_NONBLOCK != 0 => {
            over(sh, &cell.proc, cell.pid)
        }
        nr if HARMLESS.contains(&nr) => {}
        _ => over(sh, &cell.proc, cell.pid),
    }
    false
}

/// Calls that neither see nor change the offset or the set of descriptors that share it.
const HARMLESS: [i64; 38] = [
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_times,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_wait4,
    libc::SYS_ftruncate,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pread64,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
];

fn tell(sh: &Shared, cell: &Cell, n: &Notice, fd: i32) -> bool {
    let a = lock(&cell.proc.ahead);
    match a.streams.get(&fd).filter(|s| !s.new) {
        Some(s) => {
            sh.listener.reply(n.id, s.pos as i64);
            true
        }
        None => false,
    }
}

fn read(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice, fd: i32) -> bool {
    let mut a = lock(&cell.proc.ahead);
    if n.args[2] == 0 || n.args[2] > READ_MAX {
        end(sh, cell.pid, &mut a, Some(fd));
        return false;
    }
    let Some(s) = a.streams.get_mut(&fd) else {
        return count(sh, cell, n, fd, &mut a);
    };
    if s.waiter.is_some() {
        // Two threads read the same file: in what order, the kernel shall say.
        end(sh, cell.pid, &mut a, Some(fd));
        return false;
    }
    if let Some(bytes) = s.next(n.args[2]) {
        let len = bytes.len() as u64;
        if !cell.write(n.args[1], bytes) {
            // As much as fits, and the right error: the kernel's business.
            end(sh, cell.pid, &mut a, Some(fd));
            return false;
        }
        s.pos += len;
        if !s.end && s.asked.is_none() && s.ahead() - s.pos < LOW {
            ask(sh, cell, fd, s);
        }
        drop(a);
        lock(&cell.st).again = None;
        sh.listener.reply(n.id, len as i64);
        return true;
    }
    if !wait(cell, n, s) {
        end(sh, cell.pid, &mut a, Some(fd));
        return false;
    }
    if s.asked.is_none() {
        ask(sh, cell, fd, s);
    }
    true
}

/// The read waits for the answer that is on its way.
fn wait(cell: &Arc<Cell>, n: &Notice, s: &mut Stream) -> bool {
    let Some(special) = Special::begin(&cell.proc) else {
        return false;
    };
    lock(&cell.st).waiting = Some(Waiting::Special);
    s.waiter = Some(Waiter {
        cell: cell.clone(),
        n: *n,
        _special: special,
    });
    true
}

fn ask(sh: &Shared, cell: &Cell, fd: i32, s: &mut Stream) {
    let seq = sh.number();
    s.asked = Some(seq);
    s.told = s.pos;
    let from = (!s.new).then(|| From {
        program: s.pos,
        ahead: s.ahead(),
    });
    // In the process's name: the thread may have ended when the answer comes.
    sh.tell(&ToHome::Ahead {
        pid: cell.pid,
        seq,
        fd,
        from,
    });
}

/// Counts reads in order; asks home when there were enough.
fn count(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice, fd: i32, a: &mut Ahead) -> bool {
    if a.counts.len() >= COUNTS_MAX {
        a.counts.clear();
    }
    let c = a.counts.entry(fd).or_insert(Count {
        reads: 0,
        needed: PATIENCE,
    });
    c.reads += 1;
    if c.reads < c.needed || a.streams.len() >= STREAMS_MAX {
        return false;
    }
    c.reads = 0;
    c.needed = (c.needed * 4).min(PATIENCE_MAX);
    let mut s = Stream {
        new: true,
        ..Stream::default()
    };
    // Before the question: a freeze must know of the read that waits for the answer.
    if !wait(cell, n, &mut s) {
        return false;
    }
    ask(sh, cell, fd, &mut s);
    a.streams.insert(fd, s);
    true
}

/// What home sent.
pub struct Piece<'a> {
    pub seq: u32,
    pub fd: i32,
    pub at: Option<u64>,
    pub bytes: &'a [u8],
    pub end: bool,
}

/// Home's answer. One to a question that is over says nothing any more.
pub fn filled(sh: &Arc<Shared>, pid: Pid, p: &Piece<'_>) {
    let Some(cell) = sh.cell_of(pid) else { return };
    let mut a = lock(&cell.proc.ahead);
    let Some(s) = a.streams.get_mut(&p.fd) else {
        return;
    };
    if s.asked != Some(p.seq) {
        return;
    }
    s.asked = None;
    match p.at {
        Some(at) if s.new => (s.pos, s.told, s.start, s.new) = (at, at, at, false),
        Some(at) if at == s.ahead() => {
            s.bytes.drain(..(s.pos - s.start) as usize);
            s.start = s.pos;
        }
        _ => return end(sh, cell.pid, &mut a, Some(p.fd)),
    }
    s.bytes.extend_from_slice(p.bytes);
    s.end = p.end;
    let Some(w) = s.waiter.take() else { return };
    drop(a);
    lock(&w.cell.st).waiting = None;
    again(sh, &w);
}

/// A read that waited is served, or goes its usual way.
fn again(sh: &Arc<Shared>, w: &Waiter) {
    if !read(sh, &w.cell, &w.n, w.n.args[0] as i32) {
        forward::send(sh, &w.cell, &w.n);
    }
}

/// The process is gone from here.
pub fn forget(proc: &Proc) {
    // Out of the lock first: a waiter holds the process, too.
    let old = std::mem::take(&mut *lock(&proc.ahead));
    drop(old);
}

/// Nothing is read ahead any more: home learns where the program stands, before whatever is said next.
pub fn over(sh: &Arc<Shared>, proc: &Proc, pid: Pid) {
    end(sh, pid, &mut lock(&proc.ahead), None);
}

/// Somebody else wants to write the file.
pub fn off(sh: &Arc<Shared>, proc: &Proc, pid: Pid, fd: i32) {
    let mut a = lock(&proc.ahead);
    end(sh, pid, &mut a, Some(fd));
}

fn end(sh: &Arc<Shared>, pid: Pid, a: &mut Ahead, fd: Option<i32>) {
    let gone: Vec<i32> = match fd {
        Some(fd) => a
            .streams
            .contains_key(&fd)
            .then_some(fd)
            .into_iter()
            .collect(),
        None => a.streams.keys().copied().collect(),
    };
    if gone.is_empty() {
        return;
    }
    let (mut list, mut waiters) = (Vec::new(), Vec::new());
    for fd in &gone {
        if let Some(s) = a.streams.remove(fd) {
            if !s.new {
                list.push((*fd, s.pos));
            }
            waiters.extend(s.waiter);
        }
    }
    sh.tell(&ToHome::Stands {
        pid,
        list,
        over: gone,
    });
    for w in waiters {
        lock(&w.cell.st).waiting = None;
        forward::send(sh, &w.cell, &w.n);
    }
}

/// Now and then: others may look at /proc/PID/fdinfo.
pub fn tell_positions(sh: &Shared, proc: &Proc, pid: Pid) {
    let mut a = lock(&proc.ahead);
    let moved = a.streams.iter_mut().filter(|(_, s)| s.told != s.pos);
    let list: Vec<(i32, u64)> = moved
        .map(|(fd, s)| {
            s.told = s.pos;
            (*fd, s.pos)
        })
        .collect();
    if !list.is_empty() {
        sh.tell(&ToHome::Stands {
            pid,
            list,
            over: Vec::new(),
        });
    }
}
