//! Limits and niceness that another process gives a process that is away (prlimit, renice): its body gets the same.
//!
//! From: `keeper/src/events/dispatch.rs`, five times a second. Next: `keeper/src/deputy/limits.rs`, `host/src/home/messages.rs`.

use crate::deputy::tell_limits;
use crate::state::{Process, Task, Tree, Why};
use crate::sys as ksys;
use armento_client::api::Dest;
use armento_model::{HomeTid, Stay, Tid};
use armento_wire::talk::ToHost;
use std::collections::BTreeMap;

/// What has changed goes to the hosts; a process with a limit of CPU time comes home, where it is counted.
pub fn watch_limits(t: &mut Tree) {
    for p in t.procs.values_mut() {
        let Some(link) = p.link().cloned() else {
            continue;
        };
        tell_limits(&p.common, p.pid, &link);
        let list = changed(p);
        if !list.is_empty() {
            link.send(&ToHost::Nice { list });
        }
        if ksys::cpu_limited(p.pid) && !t.keep.move_queue.is_called_home(p.pid) {
            let why = "it has a limit of CPU time".to_owned();
            t.keep.move_queue.push_urgent(Task {
                pid: p.pid,
                to: Dest::Home,
                why: Why::Call(Stay::UnsupportedCall, why),
            });
        }
    }
}

/// Threads whose niceness is not what their host was told last. KERNEL: a thread has its own, getpriority(2).
fn changed(p: &mut Process) -> Vec<(HomeTid, i32)> {
    let now: BTreeMap<Tid, i32> = p
        .threads
        .keys()
        .filter_map(|tid| Some((*tid, ksys::nice(*tid)?)))
        .collect();
    let before = std::mem::replace(&mut p.nice, now);
    let known = |tid: &Tid| before.get(tid).copied().unwrap_or(0);
    p.nice
        .iter()
        .filter(|(tid, nice)| known(tid) != **nice)
        .map(|(tid, nice)| (HomeTid::of_home(*tid), *nice))
        .collect()
}
