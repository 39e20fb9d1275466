//! The event loop of the tracer thread: stops, exits and execs, and what is to be done between them.
//!
//! From: the kernel, through `tracee/src/tracer_thread.rs`. Next: `keeper/src/signals/route.rs` (stops), `exec.rs` (execs).

use super::exec::execed;
use super::housekeeping::{send_back, watch_leases, watch_signalfds};
use crate::hosts::{watch_hosts, watch_mounts};
use crate::lifecycle::{process_gone, scan_children};
use crate::observers::{watch_counters, watch_cpu_sleepers};
use crate::safe::{watch_checkpoints, watch_recovered};
use crate::signals::{BACKLOG_PAUSE, end_blocked, pass_on_backlog, thread_stopped};
use crate::state::Tree;
use crate::sync::lock;
use crate::traced::watch_limits;
use armento_model::Tid;
use armento_tracee::trace::{Status, Stop};
use armento_tracee::tracer_thread::World;
use std::time::{Duration, Instant};

/// How often the tree is scanned for children born at home.
const SCAN_EVERY: Duration = Duration::from_millis(200);
/// … where forks and ends are events: some programs are let go.
const SCAN_FOLLOWED: Duration = Duration::from_secs(1);
/// A turn comes no later than this …
const TURN_MAX: Duration = Duration::from_millis(500);
/// … and where all processes are away.
const TURN_CALM: Duration = Duration::from_secs(1);
/// Hosts are watched no more often than this.
const BEAT: Duration = Duration::from_millis(450);

impl World for Tree {
    fn report(&mut self, tid: Tid, status: Status) {
        match status {
            Status::Exited(_) | Status::Killed(_) => ended(self, tid),
            Status::Stopped(thread, Stop::Event(libc::PTRACE_EVENT_EXEC)) => execed(self, thread),
            Status::Stopped(thread, stop) => thread_stopped(self, thread, stop),
            Status::Continued => {}
        }
    }

    fn turn(&mut self) -> bool {
        if self.signals.backlog {
            pass_on_backlog(self);
        }
        if !self.signals.blocked.is_empty() {
            end_blocked(self);
        }
        let every = match self.follow.on {
            true => SCAN_FOLLOWED,
            false => SCAN_EVERY,
        };
        if self.scanned.elapsed() > every {
            scan_children(self);
        }
        // By a clock of its own: a report scans, too.
        if self.watched.elapsed() > SCAN_EVERY {
            self.watched = Instant::now();
            send_back(self);
            watch_leases(self);
            watch_signalfds(self);
            watch_limits(self);
            watch_cpu_sleepers(&self.keep);
            watch_checkpoints(self);
            watch_recovered(self);
        }
        if self.beat.elapsed() > BEAT {
            self.beat = Instant::now();
            watch_hosts(&self.keep);
            watch_mounts(&self.keep);
            watch_counters(&self.keep);
        }
        !self.procs.is_empty()
    }

    /// Ends and forks at home, broken leases and sleeps by another's CPU clock make no event: they are polled.
    fn pause(&self) -> Duration {
        if self.signals.wait() {
            return BACKLOG_PAUSE;
        }
        if self.procs.values().any(|p| p.is_away() && p.safe.is_some()) {
            // A gap in a record makes no event, and a checkpoint ends it.
            return SCAN_EVERY;
        }
        let home = self.procs.values().any(|p| !p.is_away());
        if home || !lock(&self.keep.leases).is_empty() {
            return TURN_MAX;
        }
        TURN_CALM
    }
}

fn ended(t: &mut Tree, tid: Tid) {
    t.passing.remove(&tid);
    t.signals.unclaimed.retain(|(t, _)| *t != tid);
    t.follow.ended(tid);
    if let Some(pid) = t.cpu_fixup.ended(tid) {
        t.keep.cpu.thread_ended(pid, tid);
    }
    if t.procs.contains_key(&tid) {
        return process_gone(t, tid);
    }
    if let Some(d) = t.keep.deputy(tid) {
        d.close();
        t.keep.deputies.remove(tid);
        if let Some(p) = t.procs.get_mut(&d.pid) {
            p.away_mut().into_iter().for_each(|a| a.remove_deputy(tid));
        }
    }
}
