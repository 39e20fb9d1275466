//! One OS thread that owns all ptrace of a tree, and a queue of work for it.
//!
//! ```text
//! other threads ──run / post──► queue ─┐
//!                                      ├─► hand: World (all state of the traced)
//! kernel ──stops, exits──► waitpid ────┘
//! ```
//! Lock order: code in the hand may take any lock for a moment; nobody waits for the hand holding one.

use crate::sys;
use crate::trace::{self, Status};
use armento_model::Tid;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// What the hand looks after.
pub trait World {
    /// A traced thread reported.
    fn report(&mut self, tid: Tid, status: Status);
    /// Between reports: may end the hand by returning false.
    fn turn(&mut self) -> bool;
    /// How long the next turn may wait when nothing happens.
    fn pause(&self) -> Duration;
}

type Job<W> = Box<dyn FnOnce(&mut W) + Send>;

/// The way to a hand from other threads.
pub struct Hand<W> {
    queue: Sender<Job<W>>,
    wake: Arc<OwnedFd>,
}

impl<W> Clone for Hand<W> {
    fn clone(&self) -> Self {
        Hand {
            queue: self.queue.clone(),
            wake: self.wake.clone(),
        }
    }
}

impl<W: 'static> Hand<W> {
    /// Does `f` in the hand and waits for its result. `None`: the hand has ended.
    pub fn run<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut W) -> R + Send + 'static,
    ) -> Option<R> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.post(move |w| drop(tx.send(f(w))));
        rx.recv().ok()
    }

    /// Does `f` in the hand some time.
    pub fn post(&self, f: impl FnOnce(&mut W) + Send + 'static) {
        if self.queue.send(Box::new(f)).is_ok() {
            sys::poke(self.wake.as_raw_fd());
        }
    }
}

/// The thread's own end.
pub struct Palm<W> {
    jobs: Receiver<Job<W>>,
    wake: Arc<OwnedFd>,
    chld: OwnedFd,
}

/// Makes a hand. Blocks SIGCHLD in the calling thread, which must be the one that calls [`Palm::hold`]
/// and must not have started others that leave it unblocked (a lost SIGCHLD is a lost stop).
pub fn new<W>() -> io::Result<(Hand<W>, Palm<W>)> {
    let (queue, jobs) = mpsc::channel();
    let wake = Arc::new(sys::eventfd()?);
    Ok((
        Hand {
            queue,
            wake: wake.clone(),
        },
        Palm {
            jobs,
            wake,
            chld: sys::sigchld_fd()?,
        },
    ))
}

/// Reports in a row, before work and turns have theirs: threads may stop faster than they are seen to.
const REPORTS_MAX: usize = 256;

/// Sees to what is reported. `false`: there may be more.
fn reports(world: &mut impl World) -> bool {
    for _ in 0..REPORTS_MAX {
        let Some((tid, status)) = trace::next_report() else {
            return true;
        };
        world.report(tid, status);
    }
    false
}

impl<W: World> Palm<W> {
    /// Serves until the world says it is over.
    pub fn hold(self, world: &mut W) {
        loop {
            let mut all = reports(world);
            while let Ok(job) = self.jobs.try_recv() {
                job(world);
                // A job may have waited for one thread while others reported: their SIGCHLD is spent.
                all = reports(world);
            }
            if !world.turn() {
                return;
            }
            let fds = [self.chld.as_raw_fd(), self.wake.as_raw_fd()];
            let pause = match all {
                true => world.pause().as_millis() as i32,
                false => 0,
            };
            for (i, ready) in sys::poll_in(&fds, pause).into_iter().enumerate() {
                if ready {
                    sys::drain(fds[i]);
                }
            }
        }
    }
}
