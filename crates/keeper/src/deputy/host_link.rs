//! The link to one host: what both halves send each other, over however many connections.
//!
//! From: `keeper/src/hosts/connect.rs` makes it, `keeper/src/hosts/reconnect.rs` keeps it up. Next: `wire/src/session.rs`.

use super::posts::Posts;
use super::readahead::{ReadAheads, end_wanted};
use super::traffic::Traffic;
use crate::names::{Forgotten, Names};
use crate::shared_mounts::Mounts;
use crate::sync::lock;
use armento_client::api::Pass;
use armento_link::{Reader, Writer};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, NodeName, Stay, Tid};
use armento_wire::call::{self, Call};
use armento_wire::session::Session;
use armento_wire::talk::{self, SessionId, TALK, ToHome, ToHost};
use serde_bytes::ByteBuf;
use std::fs::Metadata;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How much later than the host's own end, which rests on what it knows that we heard, home declares it: how often both
/// look, and a loaded machine.
const GRACE: Duration = Duration::from_secs(1);
/// A host that sends nothing for so long may be behind a cable that is out: two of its signs of life are missing.
const SILENT: Duration = Duration::from_secs(2);
/// A host that sent something more recently had its answer: its sign of life, once a second, is acknowledged at once.
const ANSWERED: Duration = Duration::from_millis(1_200);
/// The same for a host with no body of ours: its sign of life comes every three seconds.
const SILENT_EMPTY: Duration = Duration::from_secs(7);
const ANSWERED_EMPTY: Duration = Duration::from_millis(3_600);

/// The two directions of a connection to a host.
pub type Connection = (Reader, Writer);

/// A connection that is being made: with its handshakes it takes longer than to prepare a move.
pub type Dialled = Receiver<Result<Connection>>;

/// What a host sends that has its place behind posted calls.
pub enum Message {
    Call(Box<Call>),
    Talk(ToHome),
}

impl Message {
    /// The thread whose call it is.
    pub fn caller(&self) -> Option<Tid> {
        match self {
            Message::Call(c) => Some(c.tid.at_home()),
            Message::Talk(_) => None,
        }
    }
}

pub type Post = super::posts::Post<Message>;

pub struct HostLink {
    pub node: NodeName,
    pub pass: Pass,
    /// Over however many connections.
    pub session: Session<Writer>,
    pub id: SessionId,
    /// Its posted calls, and what waits for them.
    pub posts: Arc<Posts<Message>>,
    /// The directories that it knows.
    pub names: Names,
    /// The mounts that both nodes share.
    pub mounts: Mounts,
    /// Descriptors that hosts of the tree read ahead.
    pub readaheads: Arc<ReadAheads<HostLink>>,
    /// Calls that move bytes, by descriptor; the tree's.
    pub traffic: Arc<Traffic>,
    /// How many leases had been ended by the lease holder when the host was last told which.
    breaks: AtomicU64,
    /// Held while it is told.
    telling: Mutex<()>,
    pub last_heard: Mutex<Instant>,
    /// Its last usage report named no process.
    pub empty: AtomicBool,
    pub broken: AtomicBool,
    /// Where the node is now, if not where the pass says: its address has changed.
    moved: Mutex<Option<IpAddr>>,
    /// A connection for the next move, and since when it is made: where one program was placed, another will be.
    pub spare: Mutex<Option<(Instant, Dialled)>>,
}

impl HostLink {
    /// A new link over which nothing went yet.
    pub fn new(
        node: NodeName,
        pass: Pass,
        id: SessionId,
        readaheads: Arc<ReadAheads<HostLink>>,
        traffic: Arc<Traffic>,
    ) -> HostLink {
        HostLink {
            mounts: Mounts::new(pass.dfsa.clone()),
            node,
            pass,
            session: Session::default(),
            id,
            posts: Arc::default(),
            names: Names::default(),
            readaheads,
            traffic,
            breaks: AtomicU64::new(armento_leases::breaks()),
            telling: Mutex::default(),
            last_heard: Mutex::new(Instant::now()),
            empty: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            moved: Mutex::default(),
            spare: Mutex::default(),
        }
    }

    pub fn send(&self, m: &ToHost) {
        self.settle_names();
        // When a host dies, every waiter is notified elsewhere.
        let _ = self.session.send(TALK, &[&talk::encode(m)]);
    }

    /// The pass to where the host is now.
    pub fn way(&self) -> Pass {
        let mut pass = self.pass.clone();
        if let (Some(ip), Ok(addr)) = (*lock(&self.moved), pass.addr.parse::<SocketAddr>()) {
            pass.addr = SocketAddr::new(ip, addr.port()).to_string();
        }
        pass
    }

    /// The node answers at another address than the pass says. True when it was not known yet.
    pub fn now_at(&self, ip: IpAddr) -> bool {
        let tried = self.way().addr.parse::<SocketAddr>();
        let elsewhere = tried.is_ok_and(|tried| tried.ip() != ip);
        if elsewhere {
            *lock(&self.moved) = Some(ip);
        }
        elsewhere
    }

    /// Whether it takes a short message at once; for threads that must not block.
    pub fn takes_more(&self) -> bool {
        self.session.takes_more()
    }

    /// Since when nothing was heard, if that is longer than it should be.
    pub fn lost(&self) -> Option<Duration> {
        let silent = lock(&self.last_heard).elapsed();
        (silent > self.silence().0 || !self.session.connected()).then_some(silent)
    }

    /// The silence after which the link counts as lost, and the one after which home sends a sign of life.
    pub fn silence(&self) -> (Duration, Duration) {
        match self.empty.load(Ordering::Relaxed) {
            true => (SILENT_EMPTY, ANSWERED_EMPTY),
            false => (SILENT, ANSWERED),
        }
    }

    /// A host that has not heard home for so long holds its guests.
    pub fn freezes(&self, lost: Duration) -> bool {
        lost > Duration::from_millis(self.pass.freeze_ms)
    }

    /// Nothing was heard of it for so long that it has ended.
    pub fn past(&self) -> bool {
        lock(&self.last_heard).elapsed() > Duration::from_millis(self.pass.dead_ms) + GRACE
    }

    /// Before a process is handed over, in the tracer thread: what is lost with a link is counted there when it breaks,
    /// and only then. A process is never handed over while the link is disconnected: it might wait long, and it runs here.
    pub fn ensure_connected(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) || !self.session.connected() {
            return Err(link_lost("the other node went away during the move"));
        }
        Ok(())
    }

    /// Before a message to the host: what it says may follow from a change of names, which the host has to know first.
    fn settle_names(&self) {
        self.settle_leases();
        self.names.settle(|f| self.forget_names(f));
    }

    /// Sends what `make` reads of a directory, if the host knows it, with its place among what is sent of names. It must not
    /// take long.
    pub fn send_directory(&self, m: &Metadata, make: impl FnOnce(bool) -> ToHost) {
        self.settle_leases();
        let send = |known| self.send_bounded(&make(known));
        self.names.settle_and(m, |f| self.forget_names(f), send);
    }

    /// What the host knows or reads ahead under leases that the lease holder has ended, it has to forget first.
    fn settle_leases(&self) {
        if self.breaks.load(Ordering::SeqCst) == armento_leases::breaks() {
            return;
        }
        // Other threads' messages wait until the host was told.
        let _telling = lock(&self.telling);
        let breaks = armento_leases::breaks();
        if self.breaks.load(Ordering::SeqCst) != breaks {
            self.names.give_back(None, |f| self.forget_names(f));
            let here = |link: &HostLink| std::ptr::eq(link, self);
            end_wanted(&self.readaheads, here, |link, m| link.send_bounded(m));
            self.breaks.store(breaks, Ordering::SeqCst);
        }
    }

    /// Under the lock of `names`, which the thread that frees space takes as well: it must not wait for space. What is sent
    /// of names is bounded by itself.
    pub fn forget_names(&self, f: Forgotten) {
        let bytes = |paths: Vec<Vec<u8>>| paths.into_iter().map(ByteBuf::from).collect();
        self.send_bounded(&match f {
            Forgotten::All => ToHost::ForgetAll,
            Forgotten::Some { below, files } => ToHost::ForgetNames {
                below: bytes(below),
                files: bytes(files),
            },
        });
    }

    /// As [`HostLink::forget_names`].
    pub fn send_bounded(&self, m: &ToHost) {
        let _ = self.session.send_bounded(TALK, &[&talk::encode(m)]);
    }

    /// The result of a call of a body.
    pub fn reply(&self, tid: Tid, seq: u32, ret: i64, outs: &[u8]) {
        self.settle_names();
        let head = call::reply_head(HomeTid::of_home(tid), seq, ret);
        // The bodies of a dead host wait for nothing.
        let _ = self.session.send(call::REPLY, &[&head, outs]);
    }

    /// A call was interrupted when so much was `done`.
    pub fn part(&self, tid: Tid, seq: u32, done: i64, outs: &[u8]) {
        self.settle_names();
        let head = call::reply_head(HomeTid::of_home(tid), seq, done);
        let _ = self.session.send(call::PART, &[&head, outs]);
    }
}

/// A connection that was begun before its move.
pub struct EarlyConnection {
    pub link: Arc<HostLink>,
    pub made: Dialled,
}

/// A failure of the link, as the reason why a process stays.
pub fn link_lost(e: impl std::fmt::Display) -> MigrateError {
    MigrateError::Stays(Stay::LinkLost, e.to_string())
}
