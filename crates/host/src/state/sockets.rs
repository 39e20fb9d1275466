//! Ends of connections between two processes that go directly from host to host, by the descriptors of home.
//!
//! ```text
//! Meeting ──Hold──► Held ──Go──► Direct
//!    └───────────────┴─────────────┴── a call or a move needs it at home ──► Returning ──Home──► forgotten
//! ```
//! Lock order: [`SocketEnd::state`], then `GuestThread::call`, then [`SocketLink::out`]; no two ends at once.

use super::call::{Then, Waiting};
use super::home_link::HomeLink;
use super::process::{GuestThread, Process};
use super::socket_polls::PollWatch;
use super::socket_stream::{Progress, SocketStream};
use crate::sync::lock;
use armento_link::Writer;
use armento_tracee::notify::Notice;
use armento_wire::sockets::{EndId, Recall, SocketNews};
use armento_wire::talk::ToHome;
use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, Weak};

/// Connections of other hosts that may wait for home's order.
const ARRIVALS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The hosts connect; calls are forwarded.
    Meeting,
    /// Calls wait.
    Held,
    Direct,
    /// Calls wait until home has the bytes.
    Returning,
}

/// A piece of the guest's memory: address and length.
pub type Piece = (u64, u64);

/// What a call wants of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub sends: bool,
    pub pieces: Vec<Piece>,
    pub len: u64,
    /// MSG_PEEK.
    pub peeks: bool,
    /// MSG_WAITALL: it waits for the whole length.
    pub whole: bool,
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// The struct msghdr of recvmsg, whose results are written.
    pub header: Option<u64>,
}

/// A call that waits for bytes, or for room.
pub struct SocketWait {
    pub thread: Arc<GuestThread>,
    pub notice: Notice,
    pub transfer: Transfer,
    pub done: u64,
}

/// A call that waits for its end's next phase.
pub struct Behind {
    pub thread: Arc<GuestThread>,
    pub notice: Notice,
    /// It has waited for bytes or for room before: a signal ends it.
    pub begun: bool,
}

pub struct EndState {
    pub phase: Phase,
    /// Present from Go on.
    pub stream: Option<SocketStream>,
    pub nonblocking: bool,
    pub link: Option<Arc<SocketLink>>,
    pub readers: VecDeque<SocketWait>,
    pub writers: VecDeque<SocketWait>,
    /// Calls that are taken up again when the phase has changed.
    pub behind: Vec<Behind>,
    /// Polls that wait for it, and the threads that make them.
    pub pollers: Vec<(Arc<GuestThread>, Arc<PollWatch>)>,
    /// What came before home's Go.
    pub early: Vec<(Progress, Vec<u8>)>,
    /// [`SocketStream::full_since`] at the last look.
    pub full: Option<(u64, u64)>,
}

pub struct SocketEnd {
    pub id: EndId,
    pub fd: i32,
    pub proc: Arc<Process>,
    pub state: Mutex<EndState>,
}

/// Frames on their way to the other end.
pub struct SocketLink {
    pub out: Mutex<Outgoing>,
    /// There is something for the thread that writes.
    pub more: Condvar,
    pub to: Destination,
}

#[derive(Default)]
pub struct Outgoing {
    pub frames: VecDeque<(Progress, Vec<u8>)>,
    /// A thread hands one over.
    pub busy: bool,
    pub closed: bool,
}

pub enum Destination {
    Host(Mutex<Writer>, TcpStream),
    /// The other end is at this host.
    Here(Weak<SocketEnd>),
}

impl SocketLink {
    pub fn new(to: Destination) -> Arc<SocketLink> {
        Arc::new(SocketLink {
            out: Mutex::default(),
            more: Condvar::new(),
            to,
        })
    }

    pub fn close(&self) {
        lock(&self.out).closed = true;
        self.more.notify_all();
        if let Destination::Host(_, socket) = &self.to {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Puts a frame behind the others. One that only says how far this end is takes the place of such a one.
    pub fn push(&self, progress: Progress, bytes: Vec<u8>) {
        let mut out = lock(&self.out);
        if bytes.is_empty()
            && let Some((last, empty)) = out.frames.back_mut()
            && empty.is_empty()
        {
            *last = progress;
            return;
        }
        out.frames.push_back((progress, bytes));
    }
}

impl SocketEnd {
    pub fn new(id: EndId, fd: i32, proc: Arc<Process>) -> Arc<SocketEnd> {
        Arc::new(SocketEnd {
            id,
            fd,
            proc,
            state: Mutex::new(EndState {
                phase: Phase::Meeting,
                stream: None,
                nonblocking: false,
                link: None,
                readers: VecDeque::new(),
                writers: VecDeque::new(),
                behind: Vec::new(),
                pollers: Vec::new(),
                early: Vec::new(),
                full: None,
            }),
        })
    }

    /// Home is asked to take the connection back; from now on calls on it wait.
    pub fn give_back(&self, home: &HomeLink, why: Recall) {
        if self.stop(home, &mut lock(&self.state)) {
            let end = self.id;
            home.send(&ToHome::Socket(SocketNews::Recall { end, why }));
        }
    }

    /// Nothing goes over it any more; what waits is made again when home has the bytes. False: that was so already.
    pub fn stop(&self, home: &HomeLink, st: &mut EndState) -> bool {
        if st.phase == Phase::Returning {
            return false;
        }
        st.phase = Phase::Returning;
        for (thread, watch) in st.pollers.drain(..) {
            end_poll(home, &thread, &watch);
        }
        let waits = st.readers.drain(..).chain(st.writers.drain(..));
        for w in waits {
            if w.done > 0 {
                let mut call = lock(&w.thread.call);
                call.done = w.done;
                call.again = Some(w.notice.nr);
            }
            st.behind.push(Behind {
                thread: w.thread,
                notice: w.notice,
                begun: true,
            });
        }
        true
    }

    /// Takes a call out of its wait, to end it. `None`: it has ended by itself.
    pub fn take_wait(&self, id: u64) -> Option<SocketWait> {
        let mut st = lock(&self.state);
        let EndState {
            readers, writers, ..
        } = &mut *st;
        let one = [readers, writers].into_iter().find_map(|list| {
            let at = list.iter().position(|w| w.notice.id == id)?;
            list.remove(at)
        })?;
        lock(&one.thread.call).waiting = None;
        Some(one)
    }
}

/// Home's part of a poll lacks a connection that comes home: it ends, and the guest polls anew.
pub fn end_poll(home: &HomeLink, thread: &GuestThread, watch: &Arc<PollWatch>) {
    let seq = match &lock(&thread.call).waiting {
        Some(Waiting::Call {
            seq,
            then: Then::Polled(w),
            ..
        }) if Arc::ptr_eq(w, watch) => *seq,
        _ => return,
    };
    home.send(&ToHome::Nudge {
        tid: thread.tid,
        seq,
    });
}

/// All ends at this host, and connections of other hosts that wait for theirs.
#[derive(Default)]
pub struct Sockets {
    ends: Mutex<HashMap<EndId, Arc<SocketEnd>>>,
    arrivals: Mutex<HashMap<u64, Sender<super::meetings::Pair>>>,
}

impl Sockets {
    pub fn get(&self, id: EndId) -> Option<Arc<SocketEnd>> {
        lock(&self.ends).get(&id).cloned()
    }

    /// The end of a descriptor.
    pub fn of(&self, proc: &Process, fd: i32) -> Option<Arc<SocketEnd>> {
        self.get(proc.sockets.get(fd)?)
    }

    /// A process leaves, or is gone from here: what the other ends have not read goes home.
    pub fn give_back_all(&self, home: &HomeLink, proc: &Process, why: Recall) {
        let all = proc.sockets.all().into_iter();
        all.filter_map(|(_, id)| self.get(id))
            .for_each(|end| end.give_back(home, why));
    }

    /// False: its process is about to leave, or has no room for it.
    pub fn add(&self, end: &Arc<SocketEnd>) -> bool {
        let proc = &end.proc;
        let leaves = || proc.frozen() || proc.exiting.load(Ordering::Acquire);
        let added = proc.sockets.add(end.fd, end.id, leaves);
        if added {
            lock(&self.ends).insert(end.id, end.clone());
        }
        added
    }

    /// Connections into which nothing could be written since the last look go home, whose kernel may keep more bytes than the window has
    /// (tcp(7), tcp_wmem and tcp_rmem): of two programs that both write before they read, neither is to wait for ever where it would not
    /// natively.
    pub fn give_back_full(&self, home: &HomeLink) {
        let all: Vec<_> = lock(&self.ends).values().cloned().collect();
        for end in all {
            let stuck = {
                let mut st = lock(&end.state);
                let direct = st.phase == Phase::Direct;
                let stream = st.stream.as_ref().filter(|_| direct);
                let now = stream.and_then(SocketStream::full_since);
                let before = std::mem::replace(&mut st.full, now);
                now.is_some() && now == before
            };
            if stuck {
                end.give_back(home, Recall::Call);
            }
        }
    }

    pub fn remove(&self, end: &SocketEnd) {
        end.proc.sockets.remove(end.fd, end.id);
        lock(&self.ends).remove(&end.id);
    }

    /// The other host of a connection will connect.
    pub fn wait_for(&self, connection: u64) -> Option<Receiver<super::meetings::Pair>> {
        let mut all = lock(&self.arrivals);
        if all.len() >= ARRIVALS_MAX {
            return None;
        }
        let (tx, rx) = channel();
        all.insert(connection, tx);
        Some(rx)
    }

    pub fn take_arrival(&self, connection: u64) -> Option<Sender<super::meetings::Pair>> {
        lock(&self.arrivals).remove(&connection)
    }
}
