//! Threads for requests that may wait for a disk, so that others of their stream do not wait with them.

use crate::sync::{lock, wait};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Threads of a session at most: the queue of a disk, 32 with NCQ, is then half full.
const THREADS_MAX: usize = 16;
/// Requests that wait for a thread at most; further ones are done by the stream's thread.
const QUEUE_MAX: usize = 1024;
/// A thread without work ends.
const IDLE: Duration = Duration::from_secs(10);

pub type Job = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

#[derive(Default)]
pub struct Pool {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Pool {
    /// Gives the job back if there is no room for it.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let (state, more) = &*self.state;
        let mut s = lock(state);
        if s.queue.len() >= QUEUE_MAX {
            return Err(job);
        }
        s.queue.push_back(job);
        if s.idle < s.queue.len() && s.threads < THREADS_MAX {
            let shared = self.state.clone();
            let began = std::thread::Builder::new()
                .name("mfs-pool".into())
                .spawn(move || serve(&shared));
            match began {
                Ok(_) => s.threads += 1,
                Err(_) if s.threads == 0 => {
                    return Err(s.queue.pop_back().unwrap_or(Box::new(|_| ())));
                }
                Err(_) => {}
            }
        }
        more.notify_one();
        Ok(())
    }
}

fn serve(shared: &(Mutex<State>, Condvar)) {
    // Without it files would get another thread's mask: unshare fails only without memory.
    let _ = crate::sys::own_umask();
    let mut scratch = Vec::new();
    let (state, more) = shared;
    let mut s = lock(state);
    loop {
        if let Some(job) = s.queue.pop_front() {
            drop(s);
            job(&mut scratch);
            s = lock(state);
            continue;
        }
        s.idle += 1;
        s = wait(more, s, IDLE);
        s.idle -= 1;
        if s.queue.is_empty() {
            // It was woken by nobody, or another thread was faster.
            s.threads -= 1;
            return;
        }
    }
}
