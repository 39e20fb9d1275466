//! Posted calls keep their place: what follows them on a host's stream is carried out behind them.
//!
//! ```text
//! post A ─► A's deputy ───────────────► made
//! call A ─► A's deputy, behind it
//! call B ─► deferred ────────────────────► carried out, in the order in which it came
//! ```
//! A thread of the tree that is answered before its write is made may tell others of the tree, by memory that they share.
//! What those do then comes to home behind the post, and must find it made.

use crate::sync::lock;
use armento_model::Tid;
use armento_wire::talk::Posted;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

/// Most messages that wait; then the stream is not read on. Each thread of a host has one call under way, beside signals
/// and the like.
const DEFERRED_MAX: usize = 64 << 10;
/// Not the number of any thread.
const NO_THREAD: Tid = 0;
/// Bytes carried out before the host is told.
const TELL: u64 = 256 << 10;

/// Posted calls of one host that are not made yet, and the messages that wait for them.
pub struct Posts<M> {
    st: Mutex<State<M>>,
    changed: Condvar,
}

struct State<M> {
    pending: usize,
    /// Whose they are.
    owner: Tid,
    deferred: VecDeque<M>,
    /// A thread carries out what was deferred, in order.
    draining: bool,
    /// Posted calls that were made …
    made: Posted,
    /// … and what the host was told of them.
    told: Posted,
}

impl<M> Default for Posts<M> {
    fn default() -> Self {
        Posts {
            st: Mutex::new(State {
                pending: 0,
                owner: 0,
                deferred: VecDeque::new(),
                draining: false,
                made: Posted::default(),
                told: Posted::default(),
            }),
            changed: Condvar::new(),
        }
    }
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted<M> {
    Now(M),
    /// It waits; a thread that carries out what waits has to be started.
    Later {
        start: bool,
    },
}

impl<M> Posts<M> {
    /// A message came; `of`: it is a call of this thread, which its deputy makes in order by itself.
    pub fn admit(&self, of: Option<Tid>, m: M) -> Admitted<M> {
        let mut st = lock(&self.st);
        while st.deferred.len() >= DEFERRED_MAX {
            st = self.changed.wait(st).unwrap_or_else(|e| e.into_inner());
        }
        if !st.draining && st.free_for(of) {
            return Admitted::Now(m);
        }
        st.deferred.push_back(m);
        let start = !std::mem::replace(&mut st.draining, true);
        Admitted::Later { start }
    }

    /// Carries out what waits, each when its turn has come, until nothing does. `of` as in [`Posts::admit`].
    pub fn drain(&self, of: impl Fn(&M) -> Option<Tid>, mut carry_out: impl FnMut(M)) {
        loop {
            let mut st = lock(&self.st);
            let next = loop {
                match st.deferred.front().map(&of) {
                    None => {
                        st.draining = false;
                        return;
                    }
                    Some(of) if st.free_for(of) => break st.deferred.pop_front(),
                    Some(_) => st = self.changed.wait(st).unwrap_or_else(|e| e.into_inner()),
                }
            };
            drop(st);
            self.changed.notify_all();
            next.into_iter().for_each(&mut carry_out);
        }
    }

    /// A post of this thread is about to be given to its deputy. Before: it was admitted.
    pub fn begin(self: &Arc<Self>, owner: Tid, bytes: u64) -> Post<M> {
        self.hold(owner, Posted { calls: 1, bytes })
    }

    /// What follows waits until the result is dropped.
    pub fn begin_hold(self: &Arc<Self>) -> Post<M> {
        self.hold(NO_THREAD, Posted::default())
    }

    fn hold(self: &Arc<Self>, owner: Tid, what: Posted) -> Post<M> {
        let mut st = lock(&self.st);
        st.pending += 1;
        st.owner = owner;
        Post {
            posts: self.clone(),
            what,
        }
    }

    /// All that was made so far, if it is so much that the host may wait for it. A host learns it from each reply, too.
    pub fn to_tell(&self) -> Option<Posted> {
        let mut st = lock(&self.st);
        let due = st.made.bytes - st.told.bytes >= TELL;
        due.then(|| {
            st.told = st.made;
            st.made
        })
    }

    /// All that was made so far: some of it no reply will tell of.
    pub fn tell_now(&self) -> Posted {
        let mut st = lock(&self.st);
        st.told = st.made;
        st.made
    }
}

impl<M> State<M> {
    fn free_for(&self, of: Option<Tid>) -> bool {
        self.pending == 0 || of == Some(self.owner)
    }
}

/// A posted call until it is made, or until its thread has ended.
pub struct Post<M> {
    posts: Arc<Posts<M>>,
    pub what: Posted,
}

impl<M> Drop for Post<M> {
    fn drop(&mut self) {
        let mut st = lock(&self.posts.st);
        st.pending -= 1;
        st.made.calls += self.what.calls;
        st.made.bytes += self.what.bytes;
        let none = st.pending == 0;
        drop(st);
        if none {
            self.posts.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A message: of which thread it is a call.
    type Message = (Option<Tid>, u32);

    fn posts() -> Arc<Posts<Message>> {
        Arc::default()
    }

    fn admit(p: &Posts<Message>, m: Message) -> Admitted<Message> {
        p.admit(m.0, m)
    }

    #[test]
    fn calls_of_the_posting_thread_pass_and_others_wait_in_order() {
        let p = posts();
        assert_eq!(admit(&p, (Some(1), 0)), Admitted::Now((Some(1), 0)));
        let post = p.begin(1, 10);
        assert_eq!(admit(&p, (Some(1), 1)), Admitted::Now((Some(1), 1)));
        assert_eq!(admit(&p, (Some(2), 2)), Admitted::Later { start: true });
        // Behind one that waits, even a call of the posting thread waits: it may be about what that one does.
        assert_eq!(admit(&p, (Some(1), 3)), Admitted::Later { start: false });
        assert_eq!(admit(&p, (None, 4)), Admitted::Later { start: false });
        let (tx, done) = std::sync::mpsc::channel();
        let drains = p.clone();
        let thread = std::thread::spawn(move || {
            drains.drain(|m| m.0, |m| tx.send(m.1).expect("the test waits"));
        });
        assert!(done.recv_timeout(Duration::from_millis(50)).is_err());
        drop(post);
        assert_eq!(done.iter().collect::<Vec<_>>(), [2, 3, 4]);
        thread.join().expect("it ended");
        assert_eq!(admit(&p, (Some(2), 5)), Admitted::Now((Some(2), 5)));
    }

    #[test]
    fn a_message_waits_for_posts_that_came_while_others_waited() {
        let p = posts();
        let first = p.begin(1, 0);
        for m in [(Some(2), 1), (Some(2), 2), (Some(3), 3)] {
            admit(&p, m);
        }
        drop(first);
        let (order, second) = (Mutex::new(Vec::new()), Mutex::new(None));
        let (p2, wait) = (p.clone(), Duration::from_millis(30));
        std::thread::scope(|s| {
            s.spawn(|| {
                p2.drain(
                    |m| m.0,
                    |m| {
                        lock(&order).push(m.1);
                        if m.1 == 1 {
                            *lock(&second) = Some(p2.begin(2, 0));
                        }
                    },
                );
            });
            std::thread::sleep(wait);
            assert_eq!(*lock(&order), [1, 2], "3 waits for the post of thread 2");
            drop(lock(&second).take());
        });
        assert_eq!(*lock(&order), [1, 2, 3]);
    }

    #[test]
    fn the_host_is_told_when_much_was_made() {
        let p = posts();
        assert_eq!(p.to_tell(), None);
        drop(p.begin(1, 100));
        drop(p.begin_hold());
        assert_eq!(p.to_tell(), None, "the next reply tells it");
        drop(p.begin(1, TELL));
        let made = Posted {
            calls: 2,
            bytes: TELL + 100,
        };
        assert_eq!(p.to_tell(), Some(made));
        assert_eq!(p.to_tell(), None);
        assert_eq!(p.tell_now(), made);
    }
}
