//! Which calls of a guest's threads the tracer thread has asked for: the allowlist of injected calls.
//!
//! While a thread makes an injected call, other threads of its process can write over the code it runs and over what that
//! reads, or map something else there. So the listener lets nothing through but the very calls that the tracer thread asked
//! for, and a thread that makes another one was tampered with: its process ends (`threads/tampering.rs`).
//!
//! What these calls point to may be changed under them as well. They reach nothing but the process itself and descriptor 0;
//! a child that they would make is checked in [`super::made`].

use crate::sync::lock;
use armento_model::Tid;
use armento_tracee::call::Call;
use armento_tracee::inject::Allowlist;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

struct Allowed {
    calls: Vec<Call>,
    /// The last one that was let through; it may come again, after an interruption.
    at: usize,
    since: Instant,
}

/// Threads that make injected calls just now.
#[derive(Default)]
pub struct AllowedCalls(Mutex<HashMap<Tid, Allowed>>);

/// Who made a notified call.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// The tracer thread.
    Ours,
    /// Another thread of the guest, in the name of the tracer thread.
    Forged,
    /// The program.
    Guest,
}

impl AllowedCalls {
    /// Calls that the filter allows by itself are never seen here, and passed over.
    pub fn origin(&self, tid: Tid, nr: i64, args: &[u64; 6]) -> Origin {
        let mut open = lock(&self.0);
        let Some(ours) = open.get_mut(&tid) else {
            return Origin::Guest;
        };
        let left = ours.calls.iter().skip(ours.at);
        match left.enumerate().find(|(_, c)| c.0 == nr && c.1 == *args) {
            Some((further, _)) => {
                ours.at += further;
                Origin::Ours
            }
            None => Origin::Forged,
        }
    }

    /// Threads that have been in injected calls for longer than `limit`.
    pub fn late(&self, limit: Duration) -> Vec<Tid> {
        let open = lock(&self.0);
        let late = open.iter().filter(|(_, o)| o.since.elapsed() > limit);
        late.map(|(tid, _)| *tid).collect()
    }
}

impl Allowlist for AllowedCalls {
    fn open(&self, tid: Tid, calls: &[Call]) {
        let ours = Allowed {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_the_tracer_thread_asked_for_are_ours() {
        let open = AllowedCalls::default();
        let (mmap, close) = ((9, [1, 2, 3, 4, 5, 6]), (3, [7, 0, 0, 0, 0, 0]));
        let check = |(nr, args): Call, want| assert_eq!(open.origin(5, nr, &args), want);
        check(mmap, Origin::Guest);
        open.open(5, &[mmap, close]);
        assert_eq!(open.origin(6, 9, &mmap.1), Origin::Guest, "another thread");
        check((9, [1, 2, 3, 4, 5, 7]), Origin::Forged);
        check((2, mmap.1), Origin::Forged);
        check(mmap, Origin::Ours);
        // Interrupted, it is made again.
        check(mmap, Origin::Ours);
        check(close, Origin::Ours);
        // … but not after the next.
        check(mmap, Origin::Forged);
        open.close(5);
        check(close, Origin::Guest);
        // The first was allowed by the filter itself.
        open.open(5, &[mmap, close]);
        check(close, Origin::Ours);
        assert_eq!(open.late(Duration::ZERO), [5]);
        assert!(open.late(Duration::from_secs(20)).is_empty());
    }
}
