//! The other end of a control session: a command, a keeper or a host.

use crate::line_sender::LineSender;
use crate::process::Process;
use crate::state::{Node, Sha256};
use armento_client::api::Line;
use std::sync::Arc;
use tokio::net::unix::UCred;
use tokio::sync::{Semaphore, mpsc};

/// Questions of one session that are being answered; the next wait.
const ASKED_MAX: usize = 64;

/// One client, for as long as its session lasts.
pub struct Client {
    pub node: Arc<Node>,
    pub session: u64,
    /// Whose rights it has; those of a browser's user once it acts for one.
    pub uid: u32,
    /// The browser session that it acts for.
    pub acts_for: Option<Sha256>,
    pub pid: Option<i32>,
    pub out: LineSender,
    /// The process at the other end, as it was when it connected.
    peer: Option<Process>,
    pub asked: Arc<Semaphore>,
}

impl Client {
    pub fn new(node: Arc<Node>, cred: &UCred, tx: mpsc::Sender<Line>) -> Client {
        let session = node.lock().next_number();
        Client {
            session,
            uid: cred.uid(),
            acts_for: None,
            pid: cred.pid(),
            out: LineSender(tx),
            peer: cred.pid().and_then(Process::of),
            asked: Arc::new(Semaphore::new(ASKED_MAX)),
            node,
        }
    }

    /// The process that asks, if it is the one that connected.
    pub fn peer(&self) -> Option<Process> {
        self.peer.filter(Process::lives)
    }
}
