//! Done several times a second: leases that writers wait for, signal descriptors, processes to send back.
//!
//! From: `dispatch.rs`. Next: `keeper/src/moves/run.rs`.

use crate::calls::close_mapped_files;
use crate::state::{Process, Task, Tree, Why};
use crate::sync::lock;
use armento_client::api::Dest;
use armento_leases::wanted;
use armento_model::Stay;
use std::sync::atomic::Ordering;

/// `--on NODE`: a process that came home for a call goes there again when its hold is over.
pub fn send_back(t: &mut Tree) {
    let s = &t.keep.settings;
    let Some(node) = s.pinned.clone().filter(|n| !s.stay && *n != s.node) else {
        return;
    };
    for p in t.procs.values_mut() {
        if p.must_go_back() {
            t.keep.move_queue.push(Task {
                pid: p.pid,
                to: Dest::Node(node.clone()),
                why: Why::Storm,
            });
        }
    }
}

/// A descriptor that signals were read from may be closed by now.
pub fn watch_signalfds(t: &mut Tree) {
    let away = t.procs.values().filter(|p| p.is_away());
    for p in away.filter(|p| p.common.signalfds.load(Ordering::Relaxed) != 0) {
        let read = crate::moves::signalfd_mask(p.pid);
        p.common.signalfds.store(read, Ordering::Relaxed);
    }
}

/// A writer waits for a file that an away process maps shared: bring it home, then let go.
/// KERNEL: /proc/sys/fs/lease-break-time gives us 45 s.
pub fn watch_leases(t: &mut Tree) {
    close_mapped_files(t);
    let keep = t.keep.clone();
    let mut leases = lock(&keep.leases);
    leases.retain(|(pid, _)| t.procs.get(pid).is_some_and(Process::is_away));
    for (pid, _) in leases.iter().filter(|(_, f)| wanted(f)) {
        let why = "a file that it maps shared is about to change".to_owned();
        let why = Why::Call(Stay::SharedMemory, why);
        keep.move_queue.push_urgent(Task {
            pid: *pid,
            to: Dest::Home,
            why,
        });
    }
}
