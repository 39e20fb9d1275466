//! One deputy thread: its slot, its work, and the thread of the keeper that waits for it.
//!
//! ```text
//! idle ──submit──► posted ──(deputy's loop)──► done ──waiter──► reply sent, next in the queue posted
//! ```

use super::common::Common;
use super::host_link::HostLink;
use super::work::{AGAIN, Doing, QUEUE_MAX, State, Work};
use crate::sync::lock;
use armento_abi::sends;
use armento_model::{Pid, Tid};
use armento_tracee::pages::Run;
use armento_tracee::region::Slot;
use armento_tracee::{PAGE, blocking, endless, sched_slice};
use armento_wire::call::Call;
use armento_wire::talk::ToHost;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a call of ours may wait behind a call of the body.
const OWN_MAX: Duration = Duration::from_secs(30);

pub struct Deputy {
    pub tid: Tid,
    pub pid: Pid,
    pub slot: Slot,
    pub(super) st: Mutex<State>,
    link: Mutex<Arc<HostLink>>,
    pub common: Common,
    pub(super) closed: AtomicBool,
    /// The slice of its own, while it has a short one: it serves its body.
    slice: Mutex<Option<u64>>,
}

/// The thread that waits for results of a deputy's calls. It counts against the user's limit of threads: it is begun
/// before a deputy is made that could not be served without it.
pub struct Waiter(Sender<Arc<Deputy>>);

impl Waiter {
    pub fn begin() -> std::io::Result<Waiter> {
        let (tx, whose) = std::sync::mpsc::channel::<Arc<Deputy>>();
        std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || {
                if let Ok(d) = whose.recv() {
                    d.wait_loop();
                }
            })?;
        Ok(Waiter(tx))
    }
}

impl Deputy {
    /// Makes a deputy's record; calls for it may come, and are made as soon as its thread is in its loop, but they are
    /// not answered before [`Deputy::attend`]. `parent`: the deputy that it was cloned from.
    pub fn new(
        tid: Tid,
        pid: Pid,
        slot: Slot,
        link: Arc<HostLink>,
        common: Common,
        kept: Option<(u64, usize)>,
        parent: Option<&Deputy>,
    ) -> Arc<Deputy> {
        // A child has its parent's slice already. KERNEL: sched_fork.
        let inherited = parent.and_then(|p| *lock(&p.slice));
        let own = inherited.or_else(|| sched_slice::shorten(tid));
        let st = Mutex::new(State {
            kept,
            ..State::default()
        });
        Arc::new(Deputy {
            tid,
            pid,
            slot,
            st,
            link: Mutex::new(link),
            common,
            closed: AtomicBool::new(false),
            slice: Mutex::new(own),
        })
    }

    /// From now on its waiter waits.
    pub fn attend(self: &Arc<Self>, waiter: Waiter) {
        // The waiter does not end while we hold this end.
        drop(waiter.0.send(self.clone()));
    }

    /// Its thread leaves in the midst of a call, standing still since then. Before: no call for it has come.
    pub fn frozen_since(&self, since: Instant) {
        lock(&self.st).frozen_since = Some(since);
    }

    pub fn link(&self) -> Arc<HostLink> {
        lock(&self.link).clone()
    }

    pub fn set_link(&self, l: &Arc<HostLink>) {
        *lock(&self.link) = l.clone();
    }

    /// From now on it is scheduled as the program would be.
    pub fn restore_slice(&self) {
        if let Some(old) = lock(&self.slice).take() {
            sched_slice::restore(self.tid, old);
        }
    }

    /// The deputy is no more; its waiter ends, and every waiter for its work is notified.
    pub fn close(&self) {
        self.restore_slice();
        let mut st = lock(&self.st);
        self.closed.store(true, Ordering::Release);
        let posted = st.over();
        drop(st);
        self.slot.fail(AGAIN);
        if posted {
            // No reply will tell that they are done with.
            let link = self.link();
            link.send(&ToHost::Posted(link.posts.tell_now()));
        }
    }

    /// Whether a call of the body is being executed (or about to be).
    pub fn in_call(&self) -> bool {
        matches!(lock(&self.st).doing, Some(Doing::Call { .. }))
    }

    /// Whether it does nothing and nothing waits for it.
    pub fn is_idle(&self) -> bool {
        let st = lock(&self.st);
        st.doing.is_none() && st.queue.is_empty()
    }

    /// Ends a call of the body that the deputy has not seen; false when there is none.
    pub fn turn_back(&self, result: impl Fn(u16) -> i64) -> bool {
        let st = lock(&self.st);
        match st.doing {
            Some(Doing::Call { nr, .. }) if self.slot.retract() => {
                self.slot.fail(result(nr));
                true
            }
            _ => false,
        }
    }

    /// Whether it is still at this call of the body.
    pub fn at_call(&self, number: u32) -> bool {
        matches!(lock(&self.st).doing, Some(Doing::Call { seq, .. }) if seq == number)
    }

    /// Takes back a call of the body that waits behind work of ours.
    pub fn recall(&self, which: impl Fn(&Call) -> bool) -> Option<Box<Call>> {
        let mut st = lock(&self.st);
        let at = st
            .queue
            .iter()
            .position(|w| matches!(w, Work::Call(c) if which(c)))?;
        match st.queue.remove(at) {
            Some(Work::Call(c)) => Some(c),
            _ => None,
        }
    }

    /// The call of its body under way, its numbers as the body passed them.
    pub fn call(&self) -> Option<(i64, [u64; 6])> {
        match &lock(&self.st).doing {
            Some(Doing::Call { nr, args, .. }) => Some((i64::from(*nr), *args)),
            _ => None,
        }
    }

    /// Its call was interrupted, and has `done` so many bytes. True when it would have waited for the rest: its body will.
    pub fn cut_short(&self, done: u64) -> bool {
        match &mut lock(&self.st).doing {
            Some(Doing::Call {
                nr,
                args,
                payload,
                cut,
                ..
            }) => {
                let (part, fd) = (payload.is_some_and(|all| done < all), args[0] as i32);
                let waits = || match sends::gathers((*nr).into(), args) {
                    true => blocking::gathers(self.pid, fd) == Some(true),
                    false => blocking::waits(self.pid, fd),
                };
                *cut = part && waits();
                *cut
            }
            _ => false,
        }
    }

    /// Whether a read from a file that never ends was cut to `done` bytes. Its body makes it again.
    pub fn ended_early(&self, done: u64) -> bool {
        match &lock(&self.st).doing {
            Some(Doing::Call { nr, args, .. }) => {
                endless::cut(self.tid, i64::from(*nr), args, done as i64)
            }
            _ => false,
        }
    }

    /// The pages of the program that its restart block reads and writes.
    pub fn kept_memory(&self) -> Option<Run> {
        let page = |a: u64| a & !(PAGE - 1);
        let (at, len) = lock(&self.st).kept?;
        Some((page(at), page(at + len as u64 + PAGE - 1)))
    }

    /// Number of the call under way, for its restart rule.
    pub fn call_nr(&self) -> Option<u16> {
        match lock(&self.st).doing {
            Some(Doing::Call { nr, .. }) => Some(nr),
            _ => None,
        }
    }

    /// When the call that its body issues again is to end.
    pub fn deadline(&self) -> Option<Instant> {
        lock(&self.st).deadline
    }

    pub fn block(&self) -> Option<(u16, Option<Instant>)> {
        lock(&self.st).block
    }

    /// Work for a deputy that has ended is dropped.
    pub fn submit(&self, w: Work) {
        let mut st = lock(&self.st);
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        if st.doing.is_none() && st.queue.is_empty() {
            self.begin(&mut st, w);
            drop(st);
            self.slot.wake();
            return;
        }
        let full = st.queue.len() >= QUEUE_MAX;
        match w {
            Work::Own { done, .. } | Work::Tidy { done, .. } if full => {
                let _ = done.send(-i64::from(libc::EAGAIN));
            }
            // A body's call goes before our housekeeping, and is never dropped: its thread waits.
            Work::Call(_) | Work::Posted(..) | Work::Part { .. } | Work::End { .. } => {
                st.push_first(w)
            }
            Work::Ignore { .. } if !full => st.push_first(w),
            w if !full => st.queue.push_back(w),
            _ => {}
        }
    }

    /// Forgets housekeeping that has not begun.
    pub fn forget_housekeeping(&self) {
        lock(&self.st)
            .queue
            .retain(|w| !matches!(w, Work::Tidy { .. }));
    }

    /// Does a call of ours and waits for it.
    pub fn own(&self, nr: i64, args: [u64; 6]) -> Option<i64> {
        let (done, rx) = std::sync::mpsc::channel();
        self.submit(Work::Own { nr, args, done });
        rx.recv_timeout(OWN_MAX).ok()
    }

    /// Does some housekeeping and waits for it as long as `limit`: a call of the body may come first, and block.
    pub fn tidy(&self, nr: i64, args: [u64; 6], limit: Duration) -> Option<i64> {
        let (done, rx) = std::sync::mpsc::channel();
        self.submit(Work::Tidy { nr, args, done });
        rx.recv_timeout(limit).ok()
    }
}
