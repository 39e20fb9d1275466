//! Tampering: a thread did not make the injected call that was asked for. Its process ends.
//!
//! From: `host/src/calls/dispatch.rs` (a call that is not on the allowlist). Next: `host/src/inject/allowed_calls.rs`.

use crate::state::Shared;
use armento_migrate::MigrateError;
use armento_model::Tid;
use armento_tracee::trace::TraceError;
use armento_tracee::{status, sys};
use armento_wire::talk::ToHome;
use std::time::{Duration, Instant};

/// Home gives up a host that is silent for 30 s (`keeper/src/hosts/connect.rs`), and the tracer thread sends nothing while it
/// waits for a thread.
const CALLS_MAX: Duration = Duration::from_secs(20);
/// Checked so often: a thread that is late ends before home gives the host up.
const CHECK_EVERY: Duration = Duration::from_secs(4);
/// Threads of a process that was killed end in microseconds, unless the node is short of memory.
const REAP_MAX: Duration = Duration::from_secs(2);
const REAP_EVERY: Duration = Duration::from_millis(1);

/// Ends the process. Home is notified here: the tracer thread, which waits for the thread, takes its end for that of a
/// call.
pub fn end_tampered(shared: &Shared, tid: Tid, what: &str) {
    let here = status::read(tid).map_or(tid, |s| s.tgid);
    eprintln!("process {here} of this node was killed: {what}");
    let thread = shared.threads.here(tid);
    let _ = sys::kill(here, libc::SIGKILL);
    reap_others(here);
    if let Some(thread) = thread {
        let (pid, sig) = (thread.pid, libc::SIGKILL);
        shared.home.send(&ToHome::Died { pid, sig });
    }
}

/// The tracer thread may wait for the first thread, whose end the kernel reports when all others were waited for, by any
/// thread of the tracer's process. KERNEL: wait_task_zombie, delay_group_leader.
fn reap_others(pid: Tid) {
    let until = Instant::now() + REAP_MAX;
    loop {
        let others = status::threads(pid).unwrap_or_default();
        let others: Vec<Tid> = others.into_iter().filter(|t| *t != pid).collect();
        for tid in &others {
            let _ = sys::waitpid(*tid, libc::__WALL | libc::WNOHANG);
        }
        if others.is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(REAP_EVERY);
    }
}

/// After an error in a thread: one that did not come back as injected code does was tampered with.
pub fn judge_error(shared: &Shared, tid: Tid, e: &MigrateError) {
    if matches!(e, MigrateError::Trace(TraceError::Odd(_))) {
        end_tampered(shared, tid, &e.to_string());
    }
}

/// Ends processes whose threads do not come back from injected calls: the tracer thread waits for them.
pub fn watch_injected_calls(shared: &Shared) {
    loop {
        std::thread::sleep(CHECK_EVERY);
        for tid in shared.injected.late(CALLS_MAX) {
            end_tampered(
                shared,
                tid,
                "a thread does not come back from a call of ours",
            );
        }
    }
}
