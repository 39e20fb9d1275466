//! fork, vfork, clone and clone3 of a guest: the deputy forks first and gives the number, then the body.

use super::clone_args::{CloneArgs, refused, requested};
use super::cmdline;
use super::come_home::come_home;
use super::direct::end_direct;
use super::post::park;
use super::readahead::end_readahead;
use crate::inject::{begin_child, clone_args, made};
use crate::state::{
    Body, GuestTable, GuestThread, Host, Process, Shared, Special, TracedThread, VforkParent,
    Waiting, is_restart,
};
use crate::sync::lock;
use crate::threads;
use armento_migrate::Result;
use armento_model::{HomePid, HomeTid, Stay, Tid};
use armento_tracee::notify::Notice;
use armento_tracee::trace::{self, Stopped};
use armento_wire::talk::{ToHome, ToHost};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a host needs for itself of the processes and threads that its node gives it (`guest_procs_max`): its own, the
/// guard, the zygote, and what moves take.
const OURS: u64 = 64;
/// A fork under way: the child, and the thread that waits for it.
const FORK: u64 = 2;

/// A reservation for one more thread of a guest.
struct Place(Arc<AtomicU64>);

impl Place {
    /// `None`: the limit is reached.
    fn take(shared: &Shared) -> Option<Place> {
        let under_way = shared.forking.fetch_add(1, Ordering::Relaxed) + 1;
        let place = Place(shared.forking.clone());
        let used = shared.threads.count() + under_way * FORK + OURS;
        (shared.start.procs_max == 0 || used <= shared.start.procs_max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub fn begin(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let Some(w) = requested(n, thread.here).filter(|w| !refused(w)) else {
        return come_home(
            host,
            thread,
            n.id,
            Stay::UnsupportedCall,
            "an unusual clone3",
        );
    };
    if w.only_at_home() {
        return come_home(
            host,
            thread,
            n.id,
            Stay::UnsupportedCall,
            "a clone with new namespaces or shared memory",
        );
    }
    let Some(place) = Place::take(host) else {
        // A refusal after home has forked would leave a dead child there; and at home there may be room.
        let why = "its node lets guests have no more processes and threads";
        return come_home(host, thread, n.id, Stay::LimitLower, why);
    };
    let Some(special) = Special::begin(&thread.proc) else {
        return park(host, thread, n.id);
    };
    let special = (special, place);
    if (w.has(libc::CLONE_FILES) || w.has(libc::CLONE_FS)) && !w.has(libc::CLONE_THREAD) {
        // Another process can change this one's descriptors and working directory from now on; home says nothing of them
        // any more.
        lock(&thread.proc.descriptors).forget_all();
        thread.proc.forget_base(host.home.number());
    }
    lock(&thread.call).waiting = Some(Waiting::Special);
    let (host, thread, id) = (host.clone(), thread.clone(), n.id);
    if !w.has(libc::CLONE_VM) && thread.proc.pending_pages.any() {
        // A child would have empty pages where its parent's are still to come.
        armento_tracee::spawn::soon("whole", move || match thread.proc.pending_pages.wait() {
            Ok(()) => ask(host, thread, id, w, special),
            Err(e) => {
                drop(special);
                come_home(&host, &thread, id, e.stay(), "a fork");
            }
        });
        return;
    }
    ask(host, thread, id, w, special);
}

/// Home forks, and then the body.
fn ask(
    host: Arc<Host>,
    thread: Arc<GuestThread>,
    id: u64,
    w: CloneArgs,
    special: (Special, Place),
) {
    let is_thread = w.has(libc::CLONE_THREAD);
    if !is_thread {
        // The child may read its parent's command line at home, unseen by this host: `$0 = "x"; system "ps"`.
        cmdline::send_cmdline(&host, &thread);
    }
    let answer = host.home.ask_stream(|seq| ToHome::Fork {
        tid: thread.tid,
        seq,
        flags: w.flags,
        exit_signal: w.exit_signal,
        thread: is_thread,
    });
    let work = move || {
        let ret = match answer.recv() {
            Ok(ToHost::Forked {
                stay: Some(stay), ..
            }) => {
                return come_home(
                    &host,
                    &thread,
                    id,
                    stay,
                    "no room for more threads or children",
                );
            }
            Ok(ToHost::Forked { ret, .. }) => ret,
            _ => return,
        };
        // The child has the description of a file that another thread opened meanwhile.
        end_readahead(&host, &thread.proc, thread.pid);
        if !is_thread {
            end_direct(&host, &thread.proc, thread.pid);
        }
        if ret < 0 && !is_restart(ret) {
            lock(&thread.call).waiting = None;
            drop(special);
            host.listener.reply(id, ret);
            return;
        }
        let tracer = host.tracer.clone();
        tracer.post(move |guests| {
            lock(&thread.call).waiting = None;
            let child = HomeTid::of_home(ret as i32);
            if ret < 0 {
                threads::restart_call(guests, &thread, id, ret);
            } else if let Err(e) = split(guests, &thread, id, &w, child) {
                // The deputy's child exists without a body: home ends it, the caller sees EAGAIN.
                host.home.send(&end_of(child, thread.pid, is_thread));
                eprintln!("fork of {} failed: {e}", thread.pid);
                threads::judge_error(&host, thread.here, &e);
            }
            drop(special);
        });
    };
    // One thread for each fork: forks are rare beside calls, and the listener must not wait.
    armento_tracee::spawn::soon("fork", work);
}

/// For home: the end of a child, or of a thread of `pid`, that has no body.
fn end_of(child: HomeTid, pid: HomePid, is_thread: bool) -> ToHome {
    if is_thread {
        return ToHome::ThreadExit { pid, tid: child };
    }
    let (pid, sig) = (child.of_leader(), libc::SIGKILL);
    ToHome::Died { pid, sig }
}

/// Breaks the thread out of its notification and makes the child in its own context.
fn split(
    guests: &mut GuestTable,
    thread: &Arc<GuestThread>,
    id: u64,
    w: &CloneArgs,
    child_tid: HomeTid,
) -> Result<()> {
    let code = guests.code.clone();
    let (stopped, mut h) = threads::break_out(guests, thread, id)?;
    let before = h.regs;
    let vfork = w.has(libc::CLONE_VFORK);
    let is_thread = w.has(libc::CLONE_THREAD);
    let parent = if is_thread {
        0
    } else {
        libc::CLONE_PARENT as u64
    };
    let flags = w.flags & !(libc::CLONE_VFORK as u64) | parent;
    let args = clone_args(
        &code,
        flags,
        w.stack,
        w.tls,
        w.ptid,
        w.ctid,
        Some(child_tid),
    );
    let (r, child) = h.call(&code, libc::SYS_clone3, [args, 88, 0, 0, 0, 0])?;
    let mask = h.mask;
    let mut regs = before;
    (regs.rax, regs.orig_rax) = (r as u64, u64::MAX);
    h.finish(regs, mask)?;
    let Some(child) = made(r, child) else {
        let _ = trace::resume(stopped, 0);
        return Err(armento_tracee::TraceError::Inside {
            what: "clone3",
            tid: thread.here,
            errno: -r as i32,
        }
        .into());
    };
    let born = match begin_child(child, w.stack, &before, mask) {
        Ok(born) => born,
        Err(e) => {
            // It has died already: its caller has its number, and learns of its end.
            let _ = trace::resume(stopped, 0);
            return Err(e);
        }
    };
    // Held until the child execs or ends, as vfork(2) does.
    let (held, goes_on) = if vfork {
        (Some(stopped), None)
    } else {
        (None, Some(stopped))
    };
    adopt(guests, thread, child, child_tid, is_thread, held);
    let _ = trace::resume(born, 0);
    match goes_on {
        Some(stopped) => drop(trace::resume(stopped, 0)),
        // Counted as special so that no move comes between.
        None => _ = thread.proc.specials.fetch_add(1, Ordering::AcqRel),
    }
    Ok(())
}

fn adopt(
    guests: &mut GuestTable,
    thread: &Arc<GuestThread>,
    here: Tid,
    tid: HomeTid,
    is_thread: bool,
    vfork: Option<Stopped>,
) {
    let shared = guests.shared.clone();
    let pid = if is_thread {
        thread.pid
    } else {
        tid.of_leader()
    };
    let proc = if is_thread {
        thread.proc.clone()
    } else {
        let proc = Process::new(here);
        let read = thread.proc.signalfds.load(Ordering::Relaxed);
        proc.signalfds.store(read, Ordering::Relaxed);
        proc
    };
    let new = GuestThread::new(pid, tid, here, proc.clone());
    shared.threads.insert(&new);
    let traced = TracedThread {
        thread: new,
        halted: None,
        asking: false,
    };
    if is_thread {
        if let Some(b) = guests.bodies.get_mut(&pid) {
            b.threads.insert(tid, traced);
        }
        return threads::queue_early(guests, pid, tid);
    }
    proc.live.store(vfork.is_none(), Ordering::Release);
    let mut body = Body::new(pid, traced);
    if let Some(parent) = guests.bodies.get(&thread.pid) {
        body.needs = parent.needs.clone();
        body.areas = parent.areas.clone();
        body.vdso = parent.vdso.clone();
    }
    body.releases = vfork.map(|stopped| VforkParent {
        pid: thread.pid,
        tid: thread.tid,
        thread: stopped,
    });
    guests.bodies.insert(pid, body);
    threads::queue_early(guests, pid, tid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_a_body_ends_as_a_thread() {
        let (pid, child) = (HomePid::of_home(7), HomeTid::of_home(8));
        let thread = end_of(child, pid, true);
        assert!(matches!(thread, ToHome::ThreadExit { pid: p, tid } if (p, tid) == (pid, child)));
        let process = end_of(child, pid, false);
        assert!(matches!(process, ToHome::Died { pid: p, .. } if p.leader() == child));
    }
}
