//! Arguments and environment as the body has them: what it writes over them (setproctitle) is seen at home.
//!
//! From: `host/src/home/pulse.rs` (at each report), `forward.rs` (an open of such a file), `fork.rs` (a child may be
//! about to look). Next: `keeper/src/calls/cmdline.rs`.

use crate::state::{GuestThread, Shared};
use crate::sync::lock;
use armento_model::Pid;
use armento_tracee::{status, sys};
use armento_wire::talk::{ToHome, Words};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are compared: what lies after them home shows as it was when the process left.
const LEN_MAX: u64 = 64 << 10;

/// Sends home what has changed since the last time. Not in the tracer thread: it may wait for a call that the caller
/// serves.
pub fn send_cmdlines(shared: &Shared) {
    of_these(shared, &shared.threads.leaders());
}

/// The same of one process, by any thread of it.
pub fn send_cmdline(shared: &Shared, thread: &Arc<GuestThread>) {
    of_these(shared, std::slice::from_ref(thread));
}

fn of_these(shared: &Shared, threads: &[Arc<GuestThread>]) {
    // A caller that finds nothing new knows that it was sent.
    let _one = lock(&shared.sending_cmdlines);
    let live = threads
        .iter()
        .filter(|c| c.proc.live.load(Ordering::Acquire));
    for w in live.filter_map(|c| changed(c)) {
        shared.home.send(&ToHome::Words(w));
    }
}

fn changed(c: &GuestThread) -> Option<Words> {
    let (at, len) = place(c.here)?;
    let mut bytes = vec![0; len as usize];
    let got = sys::vm_read(c.here, at, &mut bytes).ok()?;
    bytes.truncate(got);
    let mut h = DefaultHasher::new();
    (at, &bytes).hash(&mut h);
    let now = h.finish();
    (c.proc.cmdline.swap(now, Ordering::Relaxed) != now).then_some(Words {
        pid: c.pid,
        at,
        bytes,
    })
}

/// From the first argument to the end of the environment. KERNEL: proc_pid_stat(5), fields 48 and 51.
fn place(here: Pid) -> Option<(u64, u64)> {
    let f = status::stat_fields(here).ok()?;
    let field = |n: usize| f.get(n - 3).copied().unwrap_or(0) as u64;
    let (start, end) = (field(48), field(51));
    let len = end.checked_sub(start)?.min(LEN_MAX);
    (start != 0 && len != 0).then_some((start, len))
}
