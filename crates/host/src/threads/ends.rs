//! The end of a thread or a body, by itself or by the host.

use super::halt;
use crate::state::{Body, GuestTable, VforkParent};
use crate::sync::lock;
use armento_migrate::image::objects::{self, ObjectId};
use armento_model::{HomePid, Tid};
use armento_tracee::sys::{self};
use armento_tracee::trace;
use armento_wire::sockets::Recall;
use armento_wire::talk::ToHome;
use std::sync::atomic::Ordering;

/// A thread has ended.
pub fn ended(guests: &mut GuestTable, here: Tid, code: i32, killed: Option<i32>) {
    let shared = guests.shared.clone();
    let Some((body, tid)) = guests.thread(here) else {
        return;
    };
    let (pid, quiet) = (body.pid, body.quiet);
    let Some(traced) = body.threads.remove(&tid) else {
        return;
    };
    shared.threads.remove(&traced.thread);
    let last = body.threads.is_empty() || tid.leads(pid);
    halt::notify_move(&shared, body);
    if !last {
        if !quiet && killed.is_none() {
            shared.home.send(&ToHome::ThreadExit { pid, tid });
        }
        return;
    }
    let Some(body) = guests.bodies.remove(&pid) else {
        return;
    };
    shared.has_changed();
    body.proc.forget_files();
    shared
        .sockets
        .give_back_all(&shared.home, &body.proc, Recall::Moves);
    guests.cookies.forget(pid);
    body.threads
        .values()
        .for_each(|t| shared.threads.remove(&t.thread));
    release_parent(guests, body);
    if !quiet {
        shared.home.send(&match killed {
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
fn release_parent(guests: &mut GuestTable, body: Body) {
    let Some(VforkParent { pid, tid, thread }) = body.releases else {
        return;
    };
    if let Some(parent) = guests.bodies.get_mut(&pid) {
        parent.proc.specials.fetch_sub(1, Ordering::AcqRel);
        if parent.threads.contains_key(&tid) {
            let _ = trace::resume(thread, 0);
        }
    }
}

/// Ends a body without a report to home: it exec'd, died there, or runs elsewhere.
pub fn remove_body(guests: &mut GuestTable, pid: HomePid) {
    let shared = guests.shared.clone();
    let Some(mut body) = guests.bodies.remove(&pid) else {
        return;
    };
    shared.has_changed();
    body.proc.forget_files();
    shared
        .sockets
        .give_back_all(&shared.home, &body.proc, Recall::Moves);
    guests.cookies.forget(pid);
    body.threads
        .values()
        .for_each(|t| shared.threads.remove(&t.thread));
    drop(body.freezer.take());
    let _ = sys::kill(body.here, libc::SIGKILL);
    // Its pid must be free before the next body of that number is made: reap all its threads now.
    let mut left: Vec<Tid> = body
        .threads
        .values()
        .map(|t| t.thread.here)
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
        let mut all = guests
            .bodies
            .values()
            .flat_map(|b| objects::sizes(&b.areas));
        all.any(|(object, _)| object == *o)
    };
    lock(&shared.objects).retain(|o, it| it.lasts || used(o));
    release_parent(guests, body);
}
