//! Hosts and bodies that are lost: the deputies end as their bodies did, and the user is told why.
//!
//! From: `reconnect.rs`, `monitor.rs`, `keeper/src/daemon.rs` (a node was removed). Next: nothing.

use crate::deputy::HostLink;
use crate::state::{Keep, Process, Safe, Task, Tree, Why, tell_user};
use crate::sync::lock;
use armento_client::api::Dest;
use armento_model::{HomePid, NodeName, Pid};
use armento_tracee::{status, sys};
use armento_wire::talk::ToHost;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The host is gone, and with it every body there: their deputies are killed.
pub fn dead(keep: &Arc<Keep>, link: &Arc<HostLink>) {
    if link.broken.swap(true, Ordering::AcqRel) {
        return;
    }
    link.session.end();
    keep.hosts.remove(&link.node);
    *lock(&link.spare) = None;
    let l = link.clone();
    keep.tracer.post(move |t| host_lost(t, &l));
}

/// `node` is no member of the farm any more: nothing goes there or comes from there.
pub fn cut_off(keep: &Arc<Keep>, node: &NodeName) {
    keep.hosts.forget_identity();
    let Some(link) = keep.hosts.get(node) else {
        return;
    };
    dead(keep, &link);
}

/// Every body on a dead host is lost.
fn host_lost(t: &mut Tree, link: &Arc<HostLink>) {
    let keep = t.keep.clone();
    for p in t.procs.values_mut().filter(|p| p.is_at(link)) {
        lose(&keep, p, link, Dest::Balance);
    }
}

/// A body is lost with its host: it is built again if it can be, else its process ends.
/// `to`: where; `Balance`: where there is room.
pub fn lose(keep: &Keep, p: &mut Process, link: &HostLink, to: Dest) {
    if p.safe.as_ref().is_some_and(Safe::is_recovering) {
        // It was lost before, and is being built.
        return;
    }
    match p.safe.as_mut().map(Safe::lose) {
        Some(Ok(())) => {
            // Its signals are held from now on.
            p.begin_breaking();
            keep.move_queue.push_urgent(Task {
                pid: p.pid,
                to,
                why: Why::Lost(link.node.clone()),
            });
        }
        Some(Err(why)) => end_unsafe(p.pid, &link.node, &why),
        None => end_with_host(p.pid, link),
    }
}

/// A body is lost, and those that share its memory with it: they are ended there, since they go on from one moment.
pub fn lose_together(t: &mut Tree, link: &Arc<HostLink>, pid: Pid, to: &Dest) {
    let keep = t.keep.clone();
    for other in sharers(t, link, pid) {
        if other != pid {
            link.send(&ToHost::Kill {
                pid: HomePid::of_home(other),
            });
        }
        if let Some(p) = t.procs.get_mut(&other) {
            lose(&keep, p, link, to.clone());
        }
    }
}

/// Those whose checkpoints are of one moment with that of `pid`, and that are there; itself among them.
pub fn sharers(t: &Tree, link: &Arc<HostLink>, pid: Pid) -> Vec<Pid> {
    let safe = t.procs.get(&pid).and_then(|p| p.safe.as_ref());
    let own = vec![pid];
    let members = safe.and_then(Safe::moment).map_or(&own, |m| &m.members);
    let there = |p: &&Pid| t.procs.get(p).is_some_and(|p| p.is_at(link));
    members.iter().filter(there).copied().collect()
}

/// A body was killed: its process at home ends.
pub fn body_died(t: &mut Tree, link: &Arc<HostLink>, pid: Pid, sig: i32) {
    if let Some(p) = t.procs.get(&pid).filter(|p| p.is_at(link)) {
        // KERNEL: what is short of memory sends SIGKILL, and no program sends it to itself here.
        if sig == libc::SIGKILL && p.safe.is_some() {
            return lose_together(t, link, pid, &Dest::Balance);
        }
        let why = format!("was killed on {} by signal {sig}", link.node);
        let what = if sig == libc::SIGKILL {
            "that node's memory may have run out, or a node or link failed while its memory was on its way (`armento nodes`): start it again, on another with --on"
        } else {
            "see that node's log, then start it again"
        };
        end_with(pid, &why, what);
    }
}

/// Ends a process that lost its body. Its user is told why, on its standard error.
pub fn end_with_host(pid: Pid, link: &HostLink) {
    let why = format!("ended: {}, where it ran, was lost", link.node);
    end_with(
        pid,
        &why,
        "`armento nodes` shows who answers; start it again",
    );
}

/// The same for a process that was to be safe.
fn end_unsafe(pid: Pid, from: &NodeName, why: &str) {
    let what = format!("ended: {from}, where it ran, was lost, and it could not go on: {why}");
    end_with(
        pid,
        &what,
        "what it had written is left as it is; start it again; `armento why PID` shows beforehand what keeps a process from being safe",
    );
}

/// It was to go on, and cannot.
pub fn end_lost(keep: &Keep, pid: Pid, from: &NodeName, why: &str) {
    let (from, why) = (from.clone(), why.to_owned());
    keep.tracer.run(move |t| {
        if t.procs.contains_key(&pid) {
            end_unsafe(pid, &from, &why);
        }
    });
}

/// It was built again, and went another way than the lost body had.
pub fn end_other_way(t: &mut Tree, pid: Pid, what: &str) {
    if t.procs.contains_key(&pid) {
        let why = format!(
            "ended: its node was lost, and since its last checkpoint it went another way than before: {what}"
        );
        end_with(
            pid,
            &why,
            "what it had written is left as it is; its calls depend on time, chance or the order of its threads: start it again, with --safe=exact or checkpoints more often",
        );
    }
}

fn end_with(pid: Pid, why: &str, hint: &str) {
    let name = status::comm(pid, pid);
    tell_user(
        pid,
        &format!("armento: process {pid} ({name}) {why}\nhint: {hint}\n"),
    );
    let _ = sys::kill(pid, libc::SIGKILL);
}
