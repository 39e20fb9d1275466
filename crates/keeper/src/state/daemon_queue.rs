//! What threads of the keeper ask and report to the daemon, until its session takes it.

use armento_client::AskError;
use armento_client::api::{Answer, Ask, Report};
use armento_tracee::sys;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

pub enum Item {
    Ask(Box<Ask>, Duration, SyncSender<Result<Answer, AskError>>),
    Report(Box<Report>),
    /// The first program runs: it is to be reported.
    Begun,
    /// The session ends once what waits is sent, and none is begun for a while.
    Pause(SyncSender<()>),
    /// It is begun now.
    Resume(SyncSender<()>),
    Close(SyncSender<()>),
}

pub struct DaemonQueue {
    queue: Sender<Item>,
    pub wake: OwnedFd,
}

pub struct Inbox {
    pub queue: Receiver<Item>,
    /// Readable when the program has ended.
    pub end: Option<OwnedFd>,
}

impl Inbox {
    pub fn told_of_end(self, end: Option<OwnedFd>) -> Inbox {
        Inbox { end, ..self }
    }
}

impl DaemonQueue {
    pub fn new() -> (DaemonQueue, Inbox) {
        let (tx, rx) = mpsc::channel();
        let wake = sys::eventfd().unwrap_or_else(|_| std::process::abort());
        (
            DaemonQueue { queue: tx, wake },
            Inbox {
                queue: rx,
                end: None,
            },
        )
    }

    fn push(&self, item: Item) {
        if self.queue.send(item).is_ok() {
            sys::poke(self.wake.as_raw_fd());
        }
    }

    /// Asks the daemon.
    pub fn ask(&self, ask: Ask, limit: Duration) -> Result<Answer, AskError> {
        let (tx, rx) = mpsc::sync_channel(1);
        self.push(Item::Ask(Box::new(ask), limit, tx));
        rx.recv_timeout(limit + Duration::from_millis(200))
            .unwrap_or(Err(AskError::Late))
    }

    pub fn report(&self, r: Report) {
        self.push(Item::Report(Box::new(r)));
    }

    pub fn begun(&self) {
        self.push(Item::Begun);
    }

    /// Sends what waits, then ends the session for a while. It is begun again if the keeper lives on.
    pub fn pause(&self, limit: Duration) {
        let (tx, rx) = mpsc::sync_channel(1);
        self.push(Item::Pause(tx));
        let _ = rx.recv_timeout(limit);
    }

    /// Begins a session after [`DaemonQueue::pause`], so that what is reported next is heard.
    pub fn resume(&self, limit: Duration) {
        let (tx, rx) = mpsc::sync_channel(1);
        self.push(Item::Resume(tx));
        let _ = rx.recv_timeout(limit);
    }

    /// Sends what waits, then ends the session.
    pub fn close(&self, limit: Duration) {
        let (tx, rx) = mpsc::sync_channel(1);
        self.push(Item::Close(tx));
        let _ = rx.recv_timeout(limit);
    }
}
