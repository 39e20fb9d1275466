//! Hosts and bodies that are lost: the deputies end as their bodies did, and the user is told why.
//!
//! From: `reconnect.rs`, `monitor.rs`, `keeper/src/daemon.rs` (a node was removed). Next: nothing.

use crate::deputy::HostLink;
use crate::state::{Keep, Tree, tell_user};
use crate::sync::lock;
use armento_model::{NodeName, Pid};
use armento_tracee::{status, sys};
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
    for p in t.procs.values() {
        if p.is_at(link) {
            end_with_host(p.pid, link);
        }
    }
}

/// A body was killed: its process at home ends.
pub fn body_died(t: &mut Tree, link: &Arc<HostLink>, pid: Pid, sig: i32) {
    if t.procs.get(&pid).is_some_and(|p| p.is_at(link)) {
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

fn end_with(pid: Pid, why: &str, hint: &str) {
    let name = status::comm(pid, pid);
    tell_user(
        pid,
        &format!("armento: process {pid} ({name}) {why}\nhint: {hint}\n"),
    );
    let _ = sys::kill(pid, libc::SIGKILL);
}
