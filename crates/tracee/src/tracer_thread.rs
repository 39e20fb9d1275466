//! One OS thread that does all ptrace requests for a tree of processes, and its work queue.
//!
//! ```text
//! other threads ──run / post──► queue ─┐
//!                                      ├─► tracer thread: World (all state of the tracees)
//! kernel ──stops, exits──► waitpid ────┘
//! ```
//! Lock order: code on this thread may take any lock briefly; no thread that holds a lock may wait for this thread.

use crate::sys;
use crate::trace::{self, Status};
use armento_model::Tid;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// The state that the tracer thread owns.
pub trait World {
    /// A traced thread reported a stop or its end.
    fn report(&mut self, tid: Tid, status: Status);
    /// Called between reports. Returning false ends the tracer thread.
    fn turn(&mut self) -> bool;
    /// How long the next turn may wait if nothing happens.
    fn pause(&self) -> Duration;
}

type Job<W> = Box<dyn FnOnce(&mut W) + Send>;

/// Handle by which other threads reach the tracer thread.
pub struct TracerThread<W> {
    queue: Sender<Job<W>>,
    wake: Arc<OwnedFd>,
}

impl<W> Clone for TracerThread<W> {
    fn clone(&self) -> Self {
        TracerThread {
            queue: self.queue.clone(),
            wake: self.wake.clone(),
        }
    }
}

impl<W: 'static> TracerThread<W> {
    /// Runs `f` on the tracer thread and waits for its result. `None`: the tracer thread has ended.
    pub fn run<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut W) -> R + Send + 'static,
    ) -> Option<R> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.post(move |w| drop(tx.send(f(w))));
        rx.recv().ok()
    }

    /// Runs `f` on the tracer thread later, without waiting.
    pub fn post(&self, f: impl FnOnce(&mut W) + Send + 'static) {
        if self.queue.send(Box::new(f)).is_ok() {
            sys::poke(self.wake.as_raw_fd());
        }
    }
}

/// The tracer thread's end of the queue, with its event loop.
pub struct Palm<W> {
    jobs: Receiver<Job<W>>,
    wake: Arc<OwnedFd>,
    chld: OwnedFd,
}

/// Makes both ends. Blocks SIGCHLD in the calling thread, which must be the one that calls [`Palm::hold`] and must not
/// have started threads that leave SIGCHLD unblocked (a lost SIGCHLD is a lost stop).
pub fn new<W>() -> io::Result<(TracerThread<W>, Palm<W>)> {
    let (queue, jobs) = mpsc::channel();
    let wake = Arc::new(sys::eventfd()?);
    Ok((
        TracerThread {
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

/// Reports handled in a row before queued work and turns come: threads may stop faster than their stops are handled.
const REPORTS_MAX: usize = 256;

/// Handles pending reports. `false`: there may be more.
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
    /// Runs the event loop until [`World::turn`] returns false.
    pub fn hold(self, world: &mut W) {
        loop {
            let mut all = reports(world);
            while let Ok(job) = self.jobs.try_recv() {
                job(world);
                // A job may have waited for one thread while others reported: their SIGCHLD was consumed.
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
