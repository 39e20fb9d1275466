//! What hosts may want to know because of a call, and replies that wait until they were sent it.

use crate::sync::lock;
use armento_model::{Pid, Tid};
use armento_tracee::sys as tsys;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Requests that wait; more are dropped, and made again by the next call.
const REQUESTS_MAX: usize = 64;

/// A program asked for a name that was missing, or was no link: its host may want to know the directories on the way.
pub struct Request {
    pub pid: Pid,
    /// The call's number.
    pub seq: u32,
    pub path: Vec<u8>,
    /// It asked for the attributes of what is there.
    pub attributes: bool,
    /// The thread that called, if its reply is held until its host was sent what this asks for.
    pub held: Option<Tid>,
}

/// Sends a reply.
pub type Reply = Box<dyn FnOnce() + Send>;

/// A program that asks for the attributes of one file after the other: so many within this time.
const SCANS: (u32, Duration) = (2, Duration::from_millis(5));

#[derive(Default)]
pub struct Requests {
    waiting: Mutex<VecDeque<Request>>,
    /// Replies that wait until their hosts were sent what they will probably ask for next.
    held: Mutex<HashMap<Tid, Reply>>,
    /// How many requests for attributes followed each other quickly, and when the last came.
    scan: Mutex<(u32, Option<Instant>)>,
    /// Readable when there are requests; made with the thread that serves them.
    wake: OnceLock<OwnedFd>,
}

impl Requests {
    /// Whether the caller is to start the thread that serves requests: once.
    pub fn unserved(&self) -> bool {
        match self.wake.get() {
            Some(_) => false,
            None => tsys::eventfd().is_ok_and(|fd| self.wake.set(fd).is_ok()),
        }
    }

    /// Whether a program that asks for attributes now will probably ask for those of the next file as soon as it has the
    /// answer: then the answer should wait until its host knows them.
    pub fn scans(&self, now: Instant) -> bool {
        let mut scan = lock(&self.scan);
        let quick = scan.1.is_some_and(|last| now - last < SCANS.1);
        scan.0 = if quick { scan.0.saturating_add(1) } else { 1 };
        scan.1 = Some(now);
        scan.0 >= SCANS.0
    }

    /// `reply`: that of the thread that the request names. Returns whether it will be sent.
    pub fn request(&self, mut r: Request, reply: Option<(Tid, Reply)>) -> bool {
        let Some(wake) = self.wake.get() else {
            return false;
        };
        let mut all = lock(&self.waiting);
        // One that is dropped is made again by the next call.
        if all.len() >= REQUESTS_MAX {
            return false;
        }
        r.held = reply.as_ref().map(|(tid, _)| *tid);
        let holds = r.held.is_some();
        lock(&self.held).extend(reply);
        all.push_back(r);
        drop(all);
        tsys::poke(wake.as_raw_fd());
        holds
    }

    /// Sends a reply that is held for this thread.
    pub fn let_go(&self, tid: Tid) {
        let reply = lock(&self.held).remove(&tid);
        if let Some(send) = reply {
            send();
        }
    }

    pub fn next(&self) -> Option<Request> {
        lock(&self.waiting).pop_front()
    }

    /// Waits for a request, or until `other` is readable, at most so long.
    pub fn wait(&self, other: Option<&OwnedFd>, limit: Duration) {
        let Some(wake) = self.wake.get() else { return };
        let mut fds = vec![wake.as_raw_fd()];
        fds.extend(other.map(AsRawFd::as_raw_fd));
        let ready = tsys::poll_in(&fds, limit.as_millis() as i32);
        if ready.first() == Some(&true) {
            tsys::drain(wake.as_raw_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn request(pid: Pid) -> Request {
        Request {
            pid,
            seq: 1,
            path: Vec::new(),
            attributes: true,
            held: None,
        }
    }

    #[test]
    fn a_held_reply_is_sent_once() {
        let (all, sent) = (Requests::default(), Arc::new(AtomicBool::new(false)));
        let reply = || {
            let sent = sent.clone();
            let send: Reply = Box::new(move || assert!(!sent.swap(true, Ordering::SeqCst)));
            (7, send)
        };
        assert!(!all.request(request(7), Some(reply())), "it is not served");
        assert!(all.unserved() && !all.unserved());
        assert!(all.request(request(7), Some(reply())));
        assert_eq!(all.next().and_then(|r| r.held), Some(7));
        all.let_go(7);
        all.let_go(7);
        assert!(sent.load(Ordering::SeqCst));
        for _ in 0..2 * REQUESTS_MAX {
            all.request(request(8), None);
        }
        assert_eq!(std::iter::from_fn(|| all.next()).count(), REQUESTS_MAX);
    }

    #[test]
    fn quick_requests_are_a_scan() {
        let (all, now) = (Requests::default(), Instant::now());
        assert!(!all.scans(now) && all.scans(now) && all.scans(now + SCANS.1 / 2));
        assert!(!all.scans(now + SCANS.1 * 2));
    }
}
