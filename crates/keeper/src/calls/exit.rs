//! A body calls exit_group: its deputies end, and the parent reads the status.
//!
//! From: `dispatch.rs`. Next: `keeper/src/events/dispatch.rs`, which sees the deputies end.

use crate::deputy::{HostLink, Work};
use crate::state::Tree;
use armento_model::{CpuTime, HomePid, Pid};
use armento_tracee::sys;
use armento_wire::talk::ToHost;
use std::sync::Arc;

/// The body called exit_group.
pub fn exit(t: &mut Tree, link: &Arc<HostLink>, pid: Pid, code: i32, away: CpuTime) {
    let Some(p) = t.procs.get(&pid) else {
        return link.send(&ToHost::Kill {
            pid: HomePid::of_home(pid),
        });
    };
    if !p.is_at(link) {
        return;
    }
    if pid == t.keep.settings.root {
        t.keep.job.ends_with(code & 0xff);
    }
    // Before it ends: its parent reads that time.
    t.used_away(pid, &link.node, away);
    let Some(p) = t.procs.get(&pid) else {
        return;
    };
    // After housekeeping that is under way, if need be: it is short.
    match p.deputies().find(|d| !d.in_call()) {
        Some(d) => d.submit(Work::End {
            nr: libc::SYS_exit_group,
            code: u64::from(code as u32),
        }),
        None => drop(sys::kill(pid, libc::SIGKILL)),
    }
}
