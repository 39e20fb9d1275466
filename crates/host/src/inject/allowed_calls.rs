//! Which calls of a guest's threads are ours.
//!
//! While a thread makes calls of ours, other threads of its process can write over the code it runs and over what that
//! reads, or map something else there. So the listener lets nothing through but the very calls the hand asked for, and a
//! thread that makes another has been meddled with: its process ends.
//!
//! What these calls point to may be changed under them as well. They reach nothing but the process itself and
//! descriptor 0; who they would make beside it is looked at in [`made`].

use crate::state::shared::{Shared, lock};
use armento_migrate::MigrateError;
use armento_model::Tid;
use armento_tracee::inject::{Call, Passage};
use armento_tracee::trace::TraceError;
use armento_tracee::{status, sys};
use armento_wire::talk::ToHome;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Home gives up a host that it hears nothing of for 30 s (`keeper/src/links.rs`), and the hand tells it nothing while
/// it waits for a thread.
const CALLS_MAX: Duration = Duration::from_secs(20);
/// Looked at so often: what is late by then ends before home gives us up.
const LOOK: Duration = Duration::from_secs(4);
/// Threads of a process that was killed end in microseconds, unless the node is short of memory.
const REAP_MAX: Duration = Duration::from_secs(2);
const REAP_LOOK: Duration = Duration::from_millis(1);

struct Ours {
    calls: Vec<Call>,
    /// The last one that was let through; it may come again, after an interruption.
    at: usize,
    since: Instant,
}

/// Threads that make calls of ours just now.
#[derive(Default)]
pub struct Open(Mutex<HashMap<Tid, Ours>>);

/// What a notified call is to the passage.
#[derive(Debug, PartialEq, Eq)]
pub enum Passes {
    /// Asked for by the hand.
    Ours,
    /// Made in the name of the hand by somebody else.
    Forged,
    /// The program's own.
    Its,
}

impl Open {
    /// Calls that the filter allows by itself are never seen here, and passed over.
    pub fn passes(&self, tid: Tid, nr: i64, args: &[u64; 6]) -> Passes {
        let mut open = lock(&self.0);
        let Some(ours) = open.get_mut(&tid) else {
            return Passes::Its;
        };
        let left = ours.calls.iter().skip(ours.at);
        match left.enumerate().find(|(_, c)| c.0 == nr && c.1 == *args) {
            Some((further, _)) => {
                ours.at += further;
                Passes::Ours
            }
            None => Passes::Forged,
        }
    }

    /// Threads that have been at it for longer than any call of ours takes.
    fn late(&self, limit: Duration) -> Vec<Tid> {
        let open = lock(&self.0);
        let late = open.iter().filter(|(_, o)| o.since.elapsed() > limit);
        late.map(|(tid, _)| *tid).collect()
    }
}

impl Passage for Open {
    fn open(&self, tid: Tid, calls: &[Call]) {
        let ours = Ours {
            calls: calls.to_vec(),
            at: 0,
            since: Instant::now(),
        };
        lock(&self.0).insert(tid, ours);
    }

    fn close(&self, tid: Tid) {
        lock(&self.0).remove(&tid);
    }
}

/// Ends the process of a thread that somebody made do what we did not ask for. Home hears of it here: the hand, which
/// waits for the thread, takes its end for that of a call.
pub fn meddled(sh: &Shared, tid: Tid, what: &str) {
    let here = status::read(tid).map_or(tid, |s| s.tgid);
    eprintln!("process {here} of this node was killed: {what}");
    let cell = sh.cell(tid);
    let _ = sys::kill(here, libc::SIGKILL);
    reap_others(here);
    if let Some(cell) = cell {
        let (pid, sig) = (cell.pid, libc::SIGKILL);
        sh.tell(&ToHome::Died { pid, sig });
    }
}

/// The hand may wait for the first thread, whose end the kernel tells when all others were waited for: by any thread
/// of their tracer's process. KERNEL: wait_task_zombie, delay_group_leader.
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
        std::thread::sleep(REAP_LOOK);
    }
}

/// After an error of the hand's in a thread: one that did not come back as our own code does was meddled with.
pub fn judge(sh: &Shared, tid: Tid, e: &MigrateError) {
    if matches!(e, MigrateError::Trace(TraceError::Odd(_))) {
        meddled(sh, tid, &e.to_string());
    }
}

/// Ends processes whose threads do not come back from calls of ours: the hand waits for them.
pub fn watch(sh: &Shared) {
    loop {
        std::thread::sleep(LOOK);
        for tid in sh.open.late(CALLS_MAX) {
            meddled(sh, tid, "a thread does not come back from a call of ours");
        }
    }
}

/// The child that a clone3 of ours made. One that nobody traces was asked for by somebody else, and ends with all.
pub fn made(r: i64, child: Option<Tid>) -> Option<Tid> {
    if r > 0 && child.is_none() {
        eprintln!("a guest made itself a child that nobody sees: all guests of this tree end");
        std::process::exit(125);
    }
    child.filter(|_| r > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_but_what_the_hand_asked_for() {
        let open = Open::default();
        let (mmap, close) = ((9, [1, 2, 3, 4, 5, 6]), (3, [7, 0, 0, 0, 0, 0]));
        let check = |(nr, args): Call, want| assert_eq!(open.passes(5, nr, &args), want);
        check(mmap, Passes::Its);
        open.open(5, &[mmap, close]);
        assert_eq!(open.passes(6, 9, &mmap.1), Passes::Its, "another thread");
        check((9, [1, 2, 3, 4, 5, 7]), Passes::Forged);
        check((2, mmap.1), Passes::Forged);
        check(mmap, Passes::Ours);
        // Interrupted, it is made again.
        check(mmap, Passes::Ours);
        check(close, Passes::Ours);
        // … but not after the next.
        check(mmap, Passes::Forged);
        open.close(5);
        check(close, Passes::Its);
        // The first was allowed by the filter itself.
        open.open(5, &[mmap, close]);
        check(close, Passes::Ours);
        assert_eq!(open.late(Duration::ZERO), [5]);
        assert!(open.late(CALLS_MAX).is_empty());
    }
}
