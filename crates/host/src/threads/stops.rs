//! What a guest's threads do between calls: stops, signals, ends. All in the hand.
//!
//! Signals: those with a handler are delivered here; the default action of the others is home's
//! decision (it may kill, stop, or be ignored in an orphaned group), so the thread waits for it.

use crate::calls::cpu_time;
use crate::calls::timers;
use crate::moves::freeze;
use crate::state::guests::{Body, EARLY_MAX, Early, Th, Zoo};
use crate::state::shared::{Cell, Shared, Waiting, lock};
use crate::state::siginfo_cookies::Face;
use crate::threads::futex_waits;
use crate::threads::resume;
use armento_migrate::image::objects::{self, ObjectId};
use armento_migrate::image::thread::ERESTARTNOINTR;
use armento_migrate::stop::{Halted, without_effect};
use armento_model::{Pid, Tid};
use armento_tracee::inject::bit;
use armento_tracee::status;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::trace;
use armento_wire::talk::{Signal, ToHome};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A thread stopped by our interruption, or for the first time.
pub fn at_trap(zoo: &mut Zoo, here: Tid) {
    let sh = zoo.sh();
    resume::unsent(zoo, here);
    let Some((body, tid)) = zoo.thread(here) else {
        return;
    };
    let (frozen, stopped) = (body.proc.frozen(), body.stopped);
    let Some(th) = body.threads.get_mut(&tid) else {
        return;
    };
    lock(&th.cell.st).sigwait = None;
    futex_waits::interrupted(&th.cell);
    if frozen || stopped {
        th.halted = Some(Halted {
            tid: here,
            signal: None,
        });
        tell_freezer(&sh, body);
    } else {
        resume::lift_mask(&th.cell);
        resume::go_on(zoo, here);
    }
}

/// A signal is about to be delivered in a guest.
pub fn at_signal(zoo: &mut Zoo, here: Tid, sig: i32) {
    let sh = zoo.sh();
    resume::unsent(zoo, here);
    let Ok(mut info) = trace::siginfo(here) else {
        return;
    };
    match zoo.veils.lift(&info) {
        Some(Face::Real(real)) => {
            info = real;
            let _ = trace::set_siginfo(here, &info);
        }
        Some(Face::Void) => return at_trap(zoo, here),
        None => {}
    }
    let Some((body, tid)) = zoo.thread(here) else {
        return;
    };
    // A wait that was about to begin under our lead will be issued again: it is led anew.
    if let Some(th) = body.threads.get(&tid) {
        lock(&th.cell.st).sigwait = None;
        futex_waits::interrupted(&th.cell);
    }
    if body.proc.frozen() || body.stopped {
        // It travels, or waits for SIGCONT, with the thread.
        if let Some(th) = body.threads.get_mut(&tid) {
            th.halted = Some(Halted {
                tid: here,
                signal: Some((sig, info)),
            });
            tell_freezer(&sh, body);
        }
        return;
    }
    settle(zoo, here, sig, info);
}

/// Delivers, drops, or asks home.
fn settle(zoo: &mut Zoo, here: Tid, sig: i32, info: SigInfo) {
    let sh = zoo.sh();
    let st = status::read(here).unwrap_or_default();
    let Some((body, _)) = zoo.thread(here) else {
        return;
    };
    let pid = body.pid;
    let foreign = body.vdso.clone().filter(|_| st.caught & bit(sig) != 0);
    if let Some(foreign) = foreign {
        foreign.before_handler(zoo.passage(), here, &info);
    }
    let Some((body, tid)) = zoo.thread(here) else {
        return;
    };
    let Some(th) = body.threads.get_mut(&tid) else {
        return;
    };
    if st.caught & bit(sig) != 0 {
        timers::delivered(&body.proc, &info);
        resume::deliver(&th.cell, sig);
    } else if without_effect(&st) & bit(sig) != 0 {
        let _ = trace::resume(here, 0);
    } else {
        th.halted = Some(Halted {
            tid: here,
            signal: Some((sig, info)),
        });
        th.asking = true;
        let away = cpu_time::away(&body.proc);
        sh.tell(&ToHome::Default {
            pid,
            tid,
            sig,
            info: Signal(info.to_vec()),
            away,
        });
    }
}

/// Home took (or did not take) the default action; `stopped`: it stopped the process.
pub fn defaulted(zoo: &mut Zoo, pid: Pid, tid: Tid, stopped: bool) {
    let Some(body) = zoo.bodies.get_mut(&pid) else {
        return;
    };
    let Some(th) = body.threads.get_mut(&tid) else {
        return;
    };
    th.asking = false;
    if let Some(h) = th.halted.as_mut() {
        h.signal = None;
    }
    if stopped {
        stop(body);
    } else {
        run_on(zoo, pid);
    }
}

/// Home brings it home for the default action: the signal travels with its thread.
pub fn dumps(zoo: &mut Zoo, pid: Pid, tid: Tid) {
    let body = zoo.bodies.get_mut(&pid);
    if let Some(th) = body.and_then(|b| b.threads.get_mut(&tid)) {
        th.asking = false;
    }
}

fn stop(body: &mut Body) {
    body.stopped = true;
    for th in body.threads.values().filter(|t| t.halted.is_none()) {
        let _ = trace::interrupt(th.cell.here);
    }
}

/// SIGCONT.
pub fn continued(zoo: &mut Zoo, pid: Pid) {
    if let Some(body) = zoo.bodies.get_mut(&pid) {
        body.stopped = false;
    }
    run_on(zoo, pid);
}

/// The end of a stop or a freeze: every halted thread goes on, with the signal it stopped at.
pub fn run_on(zoo: &mut Zoo, pid: Pid) {
    let Some(body) = zoo.bodies.get_mut(&pid) else {
        return;
    };
    // Not thawed yet, or somebody stopped it.
    if body.quiet || body.stopped || body.proc.frozen() {
        return;
    }
    let (mut signals, mut others) = (Vec::new(), Vec::new());
    for th in body.threads.values_mut().filter(|t| !t.asking) {
        match th.halted.take() {
            Some(Halted {
                tid,
                signal: Some((sig, info)),
            }) => signals.push((tid, sig, info)),
            Some(h) => {
                resume::lift_mask(&th.cell);
                others.push(h.tid);
            }
            None => {}
        }
    }
    for here in others {
        resume::go_on(zoo, here);
    }
    for (here, sig, info) in signals {
        // Calls of ours came between, or a timer expired again: the stop has forgotten what it was for.
        let _ = trace::set_siginfo(here, &info);
        settle(zoo, here, sig, info);
    }
}

/// A signal from home.
pub fn queue(zoo: &mut Zoo, pid: Pid, tid: Option<Tid>, info: &SigInfo) {
    let known = zoo.bodies.get(&pid);
    let known = known.filter(|b| tid.is_none_or(|t| b.threads.contains_key(&t)));
    if known.is_none() {
        return keep_early(zoo, tid.unwrap_or(pid), info);
    }
    if timers::absorbed(zoo, pid, info) {
        return;
    }
    let Some(body) = zoo.bodies.get(&pid) else {
        return;
    };
    let here = tid.and_then(|t| body.threads.get(&t)).map(|t| t.cell.here);
    let leader = body.here;
    let sig = i32::from_le_bytes(info[..4].try_into().unwrap_or_default());
    let proc = body.proc.clone();
    let send = zoo.veils.veil(pid, tid, info);
    // Counted first: a thread about to send its call looks at the count after it has said so (see `post`).
    proc.signals.fetch_add(1, Ordering::SeqCst);
    let _ = sys::sigqueue(leader, here, sig, &send);
    nudge(zoo, pid, tid, sig);
}

fn keep_early(zoo: &mut Zoo, id: Tid, info: &SigInfo) {
    let at = zoo.early.iter().position(|e| e.id == id);
    let at = at.unwrap_or_else(|| {
        if zoo.early.len() >= EARLY_MAX {
            zoo.early.pop_front();
        }
        zoo.early.push_back(Early {
            id,
            ..Early::default()
        });
        zoo.early.len() - 1
    });
    let e = &mut zoo.early[at];
    e.told += 1;
    if e.list.len() < EARLY_MAX {
        e.list.push(*info);
    }
}

/// A process or thread was born here: what came before it is queued now.
pub fn catch_up(zoo: &mut Zoo, pid: Pid, tid: Tid) {
    let at = zoo.early.iter().position(|e| e.id == tid);
    let Some(e) = at.and_then(|i| zoo.early.remove(i)) else {
        return;
    };
    for info in e.list {
        queue(zoo, pid, Some(tid).filter(|t| *t != pid), &info);
    }
    if tid == pid
        && let Some(b) = zoo.bodies.get(&pid)
    {
        b.proc.heard.fetch_add(e.told, Ordering::SeqCst);
    }
}

/// The deputy may have seen the signal before it saw the call that the signal must break.
fn nudge(zoo: &Zoo, pid: Pid, to: Option<Tid>, sig: i32) {
    let Some(body) = zoo.bodies.get(&pid) else {
        return;
    };
    let open = |here: Tid, mask: Option<u64>| {
        status::read(here)
            .is_ok_and(|s| (mask.unwrap_or(s.blocked) | without_effect(&s)) & bit(sig) == 0)
    };
    for th in body
        .threads
        .values()
        .filter(|t| to.is_none_or(|to| to == t.cell.tid))
    {
        let (seq, mask) = {
            let st = lock(&th.cell.st);
            match &st.waiting {
                Some(Waiting::Call { seq, .. }) => (*seq, st.wait_mask),
                _ => continue,
            }
        };
        if open(th.cell.here, mask) {
            zoo.sh().tell(&ToHome::Nudge {
                tid: th.cell.tid,
                seq,
            });
            return;
        }
    }
}

/// Replies with one of the kernel's restart errors. Before: only the hand may do this, for the
/// interruption must be pending when the thread looks at the result.
pub fn restart(zoo: &mut Zoo, cell: &Arc<Cell>, id: u64, ret: i64) {
    let _ = trace::interrupt(cell.here);
    zoo.sh().listener.reply(id, ret);
}

/// Lets a parked thread stop; its call is issued again.
pub fn unpark(zoo: &mut Zoo, cell: &Arc<Cell>) {
    let mut st = lock(&cell.st);
    if let Some(Waiting::Parked { id }) = st.waiting {
        st.waiting = None;
        drop(st);
        restart(zoo, cell, id, ERESTARTNOINTR);
    }
}

/// A thread was halted, or is no more, while somebody may wait for all of them.
pub fn tell_freezer(sh: &Shared, body: &mut Body) {
    let halted = |t: &Th| t.halted.is_some();
    let Some(f) = body.freezer.as_mut() else {
        return;
    };
    let first = |t: &&Th| f.first.contains(&t.cell.here);
    if !f.told && body.threads.values().filter(first).all(halted) {
        f.told = true;
        freeze::interrupt(sh, body, |_, _| true);
    }
    if body.threads.values().all(halted)
        && let Some(f) = body.freezer.take()
    {
        let _ = f.tx.send(());
    }
}

/// A thread ended, by itself or not.
pub fn ended(zoo: &mut Zoo, here: Tid, code: i32, killed: Option<i32>) {
    let sh = zoo.sh();
    let Some((body, tid)) = zoo.thread(here) else {
        return;
    };
    let (pid, quiet) = (body.pid, body.quiet);
    let Some(th) = body.threads.remove(&tid) else {
        return;
    };
    sh.leave(&th.cell);
    let last = body.threads.is_empty() || tid == pid;
    tell_freezer(&sh, body);
    if !last {
        if !quiet && killed.is_none() {
            sh.tell(&ToHome::ThreadExit { pid, tid });
        }
        return;
    }
    let Some(body) = zoo.bodies.remove(&pid) else {
        return;
    };
    sh.has_changed();
    crate::calls::readahead::forget(&body.proc);
    zoo.veils.forget(pid);
    body.threads.values().for_each(|t| sh.leave(&t.cell));
    release_parent(zoo, &body);
    if !quiet {
        sh.tell(&match killed {
            Some(sig) => ToHome::Died { pid, sig },
            None => ToHome::Exit {
                pid,
                code,
                away: Default::default(),
            },
        });
    }
}

/// The parent of a vfork child may go on.
pub fn release_parent(zoo: &mut Zoo, body: &Body) {
    let Some((pid, tid)) = body.releases else {
        return;
    };
    if let Some(parent) = zoo.bodies.get_mut(&pid) {
        parent.proc.specials.fetch_sub(1, Ordering::AcqRel);
        if let Some(th) = parent.threads.get_mut(&tid) {
            th.halted = None;
            let _ = trace::resume(th.cell.here, 0);
        }
    }
}

/// Ends a body without telling home: it exec'd, died there, or runs elsewhere.
pub fn remove(zoo: &mut Zoo, pid: Pid) {
    let sh = zoo.sh();
    let Some(mut body) = zoo.bodies.remove(&pid) else {
        return;
    };
    sh.has_changed();
    crate::calls::readahead::forget(&body.proc);
    zoo.veils.forget(pid);
    body.threads.values().for_each(|t| sh.leave(&t.cell));
    drop(body.freezer.take());
    let _ = sys::kill(body.here, libc::SIGKILL);
    // Its pid must be free again before anybody asks for it: reap all its threads now.
    let mut left: Vec<Tid> = body
        .threads
        .values()
        .map(|t| t.cell.here)
        .filter(|t| *t != body.here)
        .collect();
    left.push(body.here);
    for t in left {
        while let Ok(s) = trace::wait_certain(t) {
            if matches!(s, trace::Status::Exited(_) | trace::Status::Killed(_)) {
                break;
            }
        }
    }
    let used = |o: &ObjectId| {
        let mut all = zoo.bodies.values().flat_map(|b| objects::sizes(&b.areas));
        all.any(|(object, _)| object == *o)
    };
    lock(&sh.objects).retain(|o, it| it.lasts || used(o));
    release_parent(zoo, &body);
}
