//! A process runs another program: its deputies and what was known of its image are no more.
//!
//! From: `keeper/src/events/exec.rs`, `keeper/src/signals/untraced_exec.rs`. Next: nothing.

use crate::sharing::settle_later;
use crate::state::{Process, Tree};
use armento_client::api::Report;
use armento_model::{HomePid, Tid};
use armento_tracee::trace;
use armento_wire::talk::ToHost;

/// An exec happened in a thread of ours: what was away is no more, a fresh image waits.
/// `traced`: it waits for its placement. True: it is the first program of `armento run`.
pub fn image_replaced(t: &mut Tree, tid: Tid, traced: bool) -> bool {
    let pid = tid;
    if let Some(l) = t.leaving.remove(&pid) {
        // It exec'd while its pages were being copied: that move is off.
        let _ = l.stopped.disband();
    }
    t.restart_blocks.remove(&tid);
    t.cpu_fixup.forget(pid);
    t.follow.forget(pid);
    // KERNEL: the event's message is the number that the thread had before it became the leader.
    let former = trace::event_msg(tid).ok().filter(|_| traced);
    t.keep.cpu.execed(pid, former.map_or(pid, |m| m as Tid));
    let locked = t.keep.settings.stay || t.keep.settings.pinned.is_some();
    let p = t
        .procs
        .entry(pid)
        .or_insert_with(|| Process::new(&t.keep.cpu, pid, locked, t.keep.settings.safe));
    if let Some(l) = p.link().cloned() {
        l.send(&ToHost::Execed {
            pid: HomePid::of_home(pid),
        });
        p.usage.used_at(&l.node, t.keep.cpu.away(pid));
    }
    let at = p.link().map(|l| l.node.clone());
    if at.is_some() || p.usage.last_exec.is_some() {
        // The new program may ask at once.
        let node = at.clone().unwrap_or_else(|| t.keep.settings.node.clone());
        t.keep.daemon.report(Report::Execed { pid, node });
    }
    p.usage.last_exec = at;
    let first = p.is_before_exec();
    if let Some(ran) = p.usage.program_ended() {
        t.keep.ran.push(ran);
    }
    p.usage.program_begins();
    match traced {
        true => p.enter_exec_stop(&t.keep.deputies),
        false => p.exec_untraced(&t.keep.deputies),
    }
    p.usage.refresh_command();
    settle_later(&t.keep, pid);
    t.publish();
    first
}
