//! Files that are open on this node itself (DFSA): a guest's reads and writes of them go to no other node.
//!
//! From: `dispatch.rs`. Next: `direct_io.rs`; else home, which has the same file open (`keeper/src/shared_mounts`).
//!
//! A file is here as long as only descriptors of this process have its description. The offset of home's stays behind; it is set before
//! anything that could depend on it, and when another process gets the description the file is used through home from
//! then on. Where this node's kernel reports an error, home makes the call instead, and has the right one.

use super::direct_calls::{Meaning, Request, meaning};
use super::direct_io::{Outcome, attempt, perform};
use super::forward;
use super::post::{park, post};
use crate::state::{GuestThread, Host, OpenFile, Process, Shared, Special, Then, Waiting};
use crate::sync::lock;
use armento_abi::{Packed, Plan};
use armento_dfsa::{Coherence, kind};
use armento_model::{HomePid, HomeTid};
use armento_tracee::notify::Notice;
use armento_tracee::spawn;
use armento_wire::talk::{DirectFile, ToHome};
use std::sync::Arc;

/// Takes a call up as if it came now.
pub type Again = fn(&Arc<Host>, &Notice);

type Files = Vec<(i32, Arc<OpenFile>)>;

/// Serves a call. `false`: it is to be forwarded, and home's offsets are right for it. `settled`: what was posted before it
/// is made.
pub fn served(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    settled: bool,
    again: Again,
) -> bool {
    if lock(&thread.proc.direct).is_empty() {
        return false;
    }
    let get = |fd: i32| lock(&thread.proc.direct).get(fd);
    let remove = |fd: i32| lock(&thread.proc.direct).remove(fd);
    match meaning(n, thread) {
        Meaning::Nothing => false,
        Meaning::Uses(fd, request) => match get(fd) {
            Some(file) => uses(host, thread, n, (fd, file, request), settled, again),
            None => false,
        },
        Meaning::Syncs(fd) => match get(fd) {
            // Home syncs as well: it may have made the file, or written it before.
            Some(file) => aside(host, thread, n, again, move |_, _| match file.sync() {
                Ok(()) => End::Forward,
                Err(e) => End::Return(errno(&e)),
            }),
            None => false,
        },
        Meaning::Closes(fd) => match remove(fd) {
            // KERNEL: close(2): a file system at the other end of a network reports errors of writes here.
            Some(file) if file.relaxed => {
                aside(host, thread, n, again, move |_, _| match file.sync() {
                    Ok(()) => End::Again,
                    Err(e) => End::ForwardThen(errno(&e)),
                })
            }
            Some(file) => {
                // A fork that another thread makes meanwhile may come before the close.
                let list: Vec<(i32, u64)> =
                    file.new_offset().map(|at| (fd, at)).into_iter().collect();
                send_list(host, thread.pid, list);
                false
            }
            None => false,
        },
        Meaning::ClosesRange(first, last) => {
            let range = first..=last;
            let fds = fds(thread, |fd, _| {
                u32::try_from(fd).is_ok_and(|fd| range.contains(&fd))
            });
            gives_up(host, thread, n, fds, again)
        }
        Meaning::Is(fd, ret) => match get(fd) {
            Some(_) => answer(host, thread, n, ret),
            None => false,
        },
        // Its file has the right size and times at home, unless home learns of writes late.
        Meaning::Asks(asked) => {
            let fds = fds(thread, |fd, file| file.relaxed && asked.contains(&fd));
            gives_up(host, thread, n, fds, again)
        }
        Meaning::Locks(fd) => match get(fd) {
            Some(file) if file.relaxed || file.is_busy() => {
                gives_up(host, thread, n, vec![fd], again)
            }
            Some(file) => {
                let list = vec![(fd, file.offset())];
                host.home.send(&ToHome::Offsets {
                    pid: thread.pid,
                    list,
                });
                false
            }
            None => false,
        },
        // The new descriptor has the description, too, when the call has succeeded.
        Meaning::Duplicates(old, new) => {
            let fds = fds(thread, |fd, file| {
                file.relaxed && (fd == old || Some(fd) == new)
            });
            gives_up(host, thread, n, fds, again)
        }
        Meaning::Ends(ended) => {
            let fds = fds(thread, |fd, _| ended.contains(&fd));
            gives_up(host, thread, n, fds, again)
        }
        Meaning::EndsAll => {
            let all = fds(thread, |_, _| true);
            gives_up(host, thread, n, all, again)
        }
    }
}

fn errno(e: &std::io::Error) -> i64 {
    -i64::from(e.raw_os_error().unwrap_or(libc::EIO))
}

fn fds(thread: &GuestThread, wanted: impl Fn(i32, &OpenFile) -> bool) -> Vec<i32> {
    let d = lock(&thread.proc.direct);
    let all = d.all().filter(|(fd, file)| wanted(*fd, file));
    all.map(|(fd, _)| fd).collect()
}

/// A read, write or seek.
fn uses(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    (fd, file, request): (i32, Arc<OpenFile>, Request),
    settled: bool,
    again: Again,
) -> bool {
    if lock(&thread.call).done > 0 {
        // The rest of a call that home has begun.
        return gives_up(host, thread, n, vec![fd], again);
    }
    if !settled && host.home.posts_pending() {
        // It would overtake what was posted before it.
        settle(host, thread, n);
        return true;
    }
    let Some(special) = Special::begin(&thread.proc) else {
        park(host, thread, n.id);
        return true;
    };
    match attempt(&file, thread, n, &request) {
        Outcome::Done(ret) => {
            count(thread, &request, ret);
            return answer(host, thread, n, ret);
        }
        Outcome::Fails => {
            drop(special);
            return gives_up(host, thread, n, vec![fd], again);
        }
        Outcome::Waits => {}
    }
    drop(special);
    let call = *n;
    aside(host, thread, n, again, move |host, thread| {
        match perform(&file, thread, &call, &request) {
            Some(ret) => {
                count(thread, &request, ret);
                End::Return(ret)
            }
            None => {
                end_files(host, &thread.proc, thread.pid, Some(&[fd]));
                End::Again
            }
        }
    })
}

fn count(thread: &GuestThread, request: &Request, ret: i64) {
    let mut files = lock(&thread.proc.files);
    files.direct += 1;
    files.direct_bytes += request.bytes(ret);
}

fn answer(host: &Host, thread: &GuestThread, n: &Notice, ret: i64) -> bool {
    lock(&thread.call).again = None;
    host.listener.reply(n.id, ret);
    true
}

/// Asks home something whose answer comes when all that was posted is made; the call goes on then.
pub fn settle(host: &Host, thread: &GuestThread, n: &Notice) {
    let packed = Packed {
        nr: libc::SYS_getppid as u16,
        ..Packed::default()
    };
    let ask = Notice {
        id: n.id,
        nr: libc::SYS_getppid as i32,
        ..Notice::default()
    };
    let plan = Plan {
        packed,
        dests: Vec::new(),
    };
    post(host, thread, &ask, plan, None, 0, Then::Direct(*n));
}

/// How a call ends that was served in a thread of its own.
enum End {
    Return(i64),
    Forward,
    /// It is forwarded, and returns this.
    ForwardThen(i64),
    /// As if it came now.
    Again,
}

/// Does something that may take its time in a thread of its own, while the guest's waits. Always true: the call is taken
/// care of.
fn aside(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    again: Again,
    work: impl FnOnce(&Host, &GuestThread) -> End + Send + 'static,
) -> bool {
    let Some(special) = Special::begin(&thread.proc) else {
        park(host, thread, n.id);
        return true;
    };
    lock(&thread.call).waiting = Some(Waiting::Special);
    let (host, thread, n) = (host.clone(), thread.clone(), *n);
    spawn::soon("direct", move || {
        let end = work(&host, &thread);
        // Before it is answered: its next call may come at once.
        lock(&thread.call).waiting = None;
        match end {
            End::Return(ret) => _ = answer(&host, &thread, &n, ret),
            End::Forward => forward::send(&host, &thread, &n),
            End::ForwardThen(ret) => {
                forward::send_then(&host, &thread, &n, Then::Return(ret));
            }
            End::Again => again(&host, &n),
        }
        drop(special);
    });
    true
}

/// Descriptors are used through home from now on, from this call on. `false`: it is to be forwarded.
fn gives_up(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    fds: Vec<i32>,
    again: Again,
) -> bool {
    let slow = |file: &OpenFile| file.relaxed || file.is_busy();
    let waits = {
        let d = lock(&thread.proc.direct);
        fds.iter().any(|fd| d.get(*fd).is_some_and(|f| slow(&f)))
    };
    if !waits {
        end_files(host, &thread.proc, thread.pid, Some(&fds));
        return false;
    }
    aside(host, thread, n, again, move |host, thread| {
        end_files(host, &thread.proc, thread.pid, Some(&fds));
        End::Again
    })
}

/// A descriptor was duplicated.
pub fn duplicated(thread: &GuestThread, old: i32, new: i32) {
    lock(&thread.proc.direct).duplicated(old, new);
}

/// No file of the process is used here any more: home has its offsets before any later message.
pub fn end_direct(shared: &Shared, proc: &Process, pid: HomePid) {
    end_files(shared, proc, pid, None);
}

/// `fds`: those of them that are open here; `None`: all, and what was asked before is void.
fn end_files(shared: &Shared, proc: &Process, pid: HomePid, fds: Option<&[i32]>) {
    let files: Files = {
        let mut d = lock(&proc.direct);
        match fds {
            None => d.take_all(),
            Some(fds) => {
                let one = |fd: &i32| d.take(*fd).map(|f| (*fd, f));
                fds.iter().filter_map(one).collect()
            }
        }
    };
    if files.is_empty() {
        return;
    }
    let list = files.iter().map(|(fd, f)| (*fd, f.offset())).collect();
    for (fd, file) in files.iter().filter(|(_, f)| f.relaxed) {
        if let Err(e) = file.sync() {
            eprintln!("process {pid}: what was written to descriptor {fd} may be lost: {e}");
        }
    }
    shared.home.send(&ToHome::Offsets { pid, list });
}

/// At each report: other processes may read /proc/PID/fdinfo.
pub fn send_offsets(shared: &Shared, proc: &Process, pid: HomePid) {
    let d = lock(&proc.direct);
    let moved = d.all().filter_map(|(fd, f)| Some((fd, f.new_offset()?)));
    send_list(shared, pid, moved.collect());
}

fn send_list(shared: &Shared, pid: HomePid, list: Vec<(i32, u64)>) {
    if !list.is_empty() {
        shared.home.send(&ToHome::Offsets { pid, list });
    }
}

/// Home has opened a file of a shared mount for a call under way, whose reply comes next.
pub fn may_open(host: &Host, tid: HomeTid, seq: u32, fd: i32, file: DirectFile) {
    let Some(thread) = host.threads.of_home(tid) else {
        return;
    };
    let Some(asked) = lock(&thread.call).asked.filter(|a| a.seq == seq) else {
        return;
    };
    let relaxed = host.shared_mounts.is_relaxed(&file.mount);
    let Some(file) = host.shared_mounts.open(file) else {
        return;
    };
    let magic = rustix::fs::fstatfs(&file).map(|fs| kind(fs.f_type));
    let quick = matches!(magic, Ok(Some(k)) if k.coherence == Coherence::OneKernel);
    let mut d = lock(&thread.proc.direct);
    // Another process may have its description by now.
    if d.ended == asked.direct {
        d.add(fd, OpenFile::new(file, relaxed, quick));
    }
}
