//! Arguments and environment of a process that is away, as its body has them, put where `ps` reads them.
//!
//! From: `dispatch.rs`, `keeper/src/moves/mappings.rs`. A deputy keeps the pages that hold them.

use crate::deputy::HostLink;
use crate::state::Tree;
use armento_model::Pid;
use armento_tracee::pages::Run;
use armento_tracee::{PAGE, status, sys};
use armento_wire::talk::Words;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn write(t: &mut Tree, link: &Arc<HostLink>, w: &Words) {
    let Some(p) = t.procs.get_mut(&w.pid.at_home()) else {
        return;
    };
    // On its way home its pages come by themselves, and may be newer.
    if p.common.coming_home.load(Ordering::Acquire) || !p.is_at(link) {
        return;
    }
    // What cannot be written shows what was there.
    if inside(w) && sys::vm_write(w.pid.at_home(), w.at, &w.bytes).is_ok() {
        p.usage.refresh_command();
    }
}

/// Whether they lie where home's kernel has arguments and environment.
fn inside(w: &Words) -> bool {
    let (first, last) = place(w.pid.at_home());
    let end = w.at.saturating_add(w.bytes.len() as u64);
    first != 0 && w.at >= first && end <= last
}

/// The pages where others read them. KERNEL: proc_pid_stat(5), fields 48 and 51.
pub fn argument_pages(pid: Pid) -> Run {
    let (first, last) = place(pid);
    (first & !(PAGE - 1), last.next_multiple_of(PAGE))
}

fn place(pid: Pid) -> Run {
    let f = status::stat_fields(pid).unwrap_or_default();
    let field = |n: usize| f.get(n - 3).copied().unwrap_or(0) as u64;
    (field(48), field(51))
}
