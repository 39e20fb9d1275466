//! Limits and niceness that another process gives a process that is away (prlimit, renice): its body gets the same.
//!
//! From: `keeper/src/events/dispatch.rs`, five times a second. Next: `keeper/src/deputy/limits.rs`, `host/src/home/messages.rs`.

use crate::deputy::{Deputy, tell_limits};
use crate::state::{Task, Tree, Why};
use crate::sys as ksys;
use armento_client::api::Dest;
use armento_model::Stay;
use armento_wire::talk::ToHost;
use std::sync::Arc;

/// What has changed goes to the hosts; a process with a limit of CPU time comes home, where it is counted.
pub fn watch_limits(t: &mut Tree) {
    for p in t.procs.values_mut() {
        let Some(link) = p.link().cloned() else {
            continue;
        };
        tell_limits(&p.common, p.pid, &link);
        let nice = |d: &Arc<Deputy>| Some((d.tid, ksys::nice(d.tid)?));
        let now = p.deputies().filter_map(nice).collect();
        let list = p.away_mut().map_or_else(Vec::new, |a| a.renice(now));
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
