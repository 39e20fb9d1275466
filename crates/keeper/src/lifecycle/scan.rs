//! Processes that were born or ended at home without an event.
//!
//! From: `keeper/src/events/dispatch.rs`. Next: nothing.

use crate::sharing::settle_later;
use crate::state::{Process, Tree};
use crate::sync::lock;
use armento_client::api::Ran;
use armento_model::{HomePid, NodeName, Pid};
use armento_tracee::status;
use armento_wire::talk::ToHost;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Finds children born at home, forgets those that ended there.
pub fn scan_children(t: &mut Tree) {
    t.scanned = Instant::now();
    let mut queue: Vec<Pid> = t.procs.keys().copied().collect();
    while let Some(pid) = queue.pop() {
        let home = t.procs.get(&pid).is_none_or(|p| !p.is_away());
        if home && status::read(pid).map_or(true, |s| s.state == 'Z' || s.state == 'X') {
            process_gone(t, pid);
            continue;
        }
        // A process whose body is away forks only through its deputy. A deputy that was killed before its birth was
        // noted has been reported, and forgotten, as a stranger.
        if !home {
            if !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
                process_gone(t, pid);
            }
            continue;
        }
        queue.extend(find_children(t, pid));
    }
    t.publish();
}

/// Finds the children of a process at home that are not known yet, and returns them. Once it is away its deputy has the
/// children that it had at home beside those of its body, and nothing tells them apart: it is to be done before it leaves.
pub fn find_children(t: &mut Tree, pid: Pid) -> Vec<Pid> {
    let own = std::process::id() as Pid;
    let mut found = status::children(pid);
    found.retain(|child| !t.procs.contains_key(child) && *child != own);
    found.iter().for_each(|child| t.child_found(*child, pid));
    found
}

/// What is new of its calls came from `node`.
pub fn note_calls(p: &mut Process, node: &NodeName) {
    let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let bytes = load(&p.common.bytes_sent).saturating_add(load(&p.common.bytes_received));
    let calls = load(&p.common.calls);
    p.usage.called(node, calls, bytes);
}

/// A process of the tree ended.
pub fn process_gone(t: &mut Tree, pid: Pid) {
    let Some(mut p) = t.procs.remove(&pid) else {
        return;
    };
    if let Some(l) = p.link().cloned() {
        l.send(&ToHost::Kill {
            pid: HomePid::of_home(pid),
        });
        p.usage.used_at(&l.node, t.keep.cpu.away(pid));
    }
    let here = t.keep.settings.node.clone();
    let place = p.link().map_or_else(|| here.clone(), |l| l.node.clone());
    let ran = p.usage.program_ended().unwrap_or_else(|| Ran {
        pid,
        program: String::new(),
        cpu_ms: None,
        ended: true,
    });
    t.keep.ran.push(Ran { ended: true, ..ran });
    // What was read ahead for it has no reader any more.
    lock(&t.keep.readaheads).retain(|(p, _), _| *p != pid);
    t.cpu_fixup.forget(pid);
    t.follow.forget(pid);
    note_calls(&mut p, &place);
    t.keep.job.process_ended(p.usage.by_node(&here), &here);
    p.close_deputies(&t.keep.deputies);
    settle_later(&t.keep, pid);
    p.usage
        .finish(p.moves(), p.common.calls.load(Ordering::Relaxed));
    t.publish();
}
