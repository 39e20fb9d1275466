//! A user's connection to one node: two streams, the requests on their way, and how it is found again.
//!
//! ```text
//!  Idle ──request──► Connecting ──► Up ──stream ends──► Idle, or Connecting if somebody waits
//!                        └──► Failed: requests wait until the deadline since it was lost, then fail at once
//! ```
//!
//! Lock: [`Link::state`], held while a frame is sent (so that frames leave in order), never while an answer is used.

use crate::client::keep::Change;
use crate::client::lane::{Frame, Lane};
use crate::client::owner::{Done, Job, Owner, random};
use crate::client::stats::Counters;
use crate::client::table::Of;
use crate::farm::Unreachable;
use crate::protocol::{
    EVENT, Entry, Event, FrameReader, Hello, Lane as Which, Reply, Request, VERSION, Welcome,
    encode,
};
use crate::sync::lock;
use armento_link::{Duplex, Reader};
use armento_model::NodeName;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Requests of a link on their way, and those that wait for it, at most; further ones are
/// EAGAIN: one for each thread that calls, and those of the kernel in the background.
const PENDING_MAX: usize = 16 << 10;
/// Posted bytes of a link at most: the product of 10 Gbit/s and 5 ms.
pub const WINDOW: usize = 6 << 20;
/// A server answers the first frame within so long.
const WELCOME: Duration = Duration::from_secs(10);
/// A node that did not answer is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);
/// A link that nobody uses is closed after so long.
const UNUSED: Duration = Duration::from_secs(90);

pub struct Pending<C> {
    frame: Arc<Frame>,
    lane: Which,
    since: Instant,
    /// The kernel's number of the call, or 0.
    unique: u64,
    /// It may take as long as it takes: a lock.
    patient: bool,
    done: Done<C>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Connecting,
    Up,
    Failed { at: Instant, errno: i32 },
}

struct State<C> {
    phase: Phase,
    /// Of what the server keeps for this link.
    session: [u8; 16],
    epoch: u64,
    of: Of,
    root: Option<Entry>,
    whole: bool,
    lanes: [Option<Arc<Lane>>; 2],
    /// The stream of bytes is being connected.
    joining: bool,
    next: u64,
    pending: BTreeMap<u64, Pending<C>>,
    waiting: Vec<(Instant, Job<C>)>,
    /// Requests whose callers do not wait any more.
    given_up: HashSet<u64>,
    /// Since when the node does not answer.
    lost: Option<Instant>,
    heard: Instant,
    pinged: bool,
    used: Instant,
    /// What the server calls them: numbers of files here.
    index: HashMap<u64, u64>,
}

pub struct Link<C> {
    pub node: usize,
    pub name: NodeName,
    pub uid: u32,
    pub counters: Counters,
    /// Posted bytes on their way.
    pub posted: AtomicUsize,
    state: Mutex<State<C>>,
}

fn index(w: Which) -> usize {
    match w {
        Which::Names => 0,
        Which::Bytes => 1,
    }
}

impl<C> State<C> {
    /// A request whose caller does not wait any more.
    fn give_up(&mut self, id: u64) -> Option<Pending<C>> {
        if self.given_up.len() >= PENDING_MAX {
            self.given_up.clear();
        }
        self.given_up.insert(id);
        self.pending.remove(&id)
    }
}

impl<C: Owner> Link<C> {
    pub fn new(node: usize, name: NodeName, uid: u32) -> Link<C> {
        let now = Instant::now();
        Link {
            node,
            name,
            uid,
            counters: Counters::default(),
            posted: AtomicUsize::new(0),
            state: Mutex::new(State {
                phase: Phase::Idle,
                session: random(),
                epoch: 0,
                of: Of { uid, session: 0 },
                root: None,
                whole: false,
                lanes: [None, None],
                joining: false,
                next: EVENT + 1,
                pending: BTreeMap::new(),
                waiting: Vec::new(),
                given_up: HashSet::new(),
                lost: None,
                heard: now,
                pinged: false,
                used: now,
                index: HashMap::new(),
            }),
        }
    }

    /// Its session, if it is up.
    pub fn up(&self) -> Option<Of> {
        let s = lock(&self.state);
        (s.phase == Phase::Up).then_some(s.of)
    }

    pub fn root(&self) -> Option<(Of, Entry, bool)> {
        let s = lock(&self.state);
        s.root
            .clone()
            .filter(|_| s.phase == Phase::Up)
            .map(|r| (s.of, r, s.whole))
    }

    pub fn is_up(&self) -> bool {
        self.up().is_some()
    }

    /// Remembers what the server calls a file.
    pub fn note(&self, of: Of, id: u64, n: u64) {
        let mut s = lock(&self.state);
        if s.of == of {
            s.index.insert(id, n);
        }
    }

    /// The server need not know these any more.
    pub fn forget(&self, of: Of, ids: Vec<(u64, u64)>) {
        let lane = {
            let mut s = lock(&self.state);
            if s.of != of || s.phase != Phase::Up {
                return;
            }
            for (id, _) in &ids {
                s.index.remove(id);
            }
            s.lanes[0].clone()
        };
        if let Some(l) = lane {
            l.send(&Arc::new(encode(EVENT, &Request::Forget(ids), b"").into()));
        }
    }

    /// Calls `job` when the link is up, or when it is known that it will not be.
    pub fn when_up(self: &Arc<Self>, core: &Arc<C>, job: Job<C>) {
        let now = Instant::now();
        let (connect, fail) = {
            let mut s = lock(&self.state);
            s.used = now;
            match s.phase {
                Phase::Up => {
                    drop(s);
                    return job(core, Ok(()));
                }
                Phase::Failed { at, errno } => {
                    let over = s.lost.is_some_and(|t| t.elapsed() >= core.deadline());
                    let retry = at.elapsed() >= RETRY;
                    if retry {
                        s.phase = Phase::Connecting;
                    }
                    let fail = errno != libc::EHOSTUNREACH && !retry || over;
                    (retry, fail.then_some(errno))
                }
                Phase::Idle => {
                    s.phase = Phase::Connecting;
                    (true, None)
                }
                Phase::Connecting => {
                    let over = s.lost.is_some_and(|t| t.elapsed() >= core.deadline());
                    (false, over.then_some(libc::EHOSTUNREACH))
                }
            }
        };
        match fail {
            Some(e) => {
                self.counters.errors.fetch_add(1, Relaxed);
                job(core, Err(e));
            }
            None => {
                let mut s = lock(&self.state);
                if s.phase == Phase::Up {
                    drop(s);
                    job(core, Ok(()));
                } else if s.waiting.len() >= PENDING_MAX {
                    drop(s);
                    job(core, Err(libc::EHOSTUNREACH));
                } else {
                    s.waiting.push((now, job));
                }
            }
        }
        if connect {
            self.connect(core);
        }
    }

    fn connect(self: &Arc<Self>, core: &Arc<C>) {
        let (me, weak) = (self.clone(), Arc::downgrade(core));
        let thread = std::thread::Builder::new().name("mfs-connect".into());
        let began = thread.spawn(move || {
            if let Some(core) = weak.upgrade() {
                let end = me.open(&core, Which::Names);
                me.connected(&core, end);
            }
        });
        if began.is_err() {
            self.connected(core, Err(libc::EAGAIN));
        }
    }

    /// A stream with its first frames exchanged. Before: no lock is held.
    fn open(
        &self,
        core: &Arc<C>,
        which: Which,
    ) -> Result<(FrameReader<Reader>, Arc<Lane>, Welcome), i32> {
        let duplex: Duplex = core.farm().connect(&self.name, self.uid).map_err(|e| {
            tracing::debug!(node = %self.name, uid = self.uid, "no file stream: {e}");
            match e {
                Unreachable::Unknown => libc::ENOENT,
                Unreachable::Lost(_) => libc::EHOSTUNREACH,
                Unreachable::Refused(_) => libc::EACCES,
            }
        })?;
        let session = lock(&self.state).session;
        let lost = |e: &dyn std::fmt::Display| {
            tracing::warn!(node = %self.name, uid = self.uid, "file stream: {e}");
            libc::EHOSTUNREACH
        };
        let socket = duplex.socket().try_clone().map_err(|e| lost(&e))?;
        let _ = socket.set_read_timeout(Some(WELCOME));
        let (reader, mut writer) = duplex.split().map_err(|e| lost(&e))?;
        let point = core.point();
        let hello = Hello {
            version: VERSION,
            session,
            lane: which,
            below: [&point[..], b"/", self.name.as_str().as_bytes()].concat(),
            point,
            cache: core.cache(),
        };
        let frame = encode(EVENT, &hello, b"");
        std::io::Write::write_all(&mut writer, &frame)
            .and_then(|()| std::io::Write::flush(&mut writer))
            .map_err(|e| lost(&e))?;
        let mut frames = FrameReader::new(reader);
        let (_, welcome, _) = frames.take::<Welcome>().map_err(|e| lost(&e))?;
        if welcome.version != VERSION {
            return Err(lost(&format!(
                "it speaks version {} of the protocol",
                welcome.version
            )));
        }
        let _ = socket.set_read_timeout(None);
        let lane = Lane::start(writer, socket).map_err(|e| lost(&e))?;
        Ok((frames, lane, welcome))
    }

    fn connected(
        self: &Arc<Self>,
        core: &Arc<C>,
        end: Result<(FrameReader<Reader>, Arc<Lane>, Welcome), i32>,
    ) {
        let (frames, lane, welcome) = match end {
            Ok(x) => x,
            Err(errno) => return self.failed(core, errno),
        };
        let (jobs, void, resend) = {
            let mut s = lock(&self.state);
            let same = s.epoch == welcome.epoch;
            let mut void = Vec::new();
            if !same {
                s.of.session += 1;
                s.index.clear();
                // The other server knows nothing of what was on its way.
                void = std::mem::take(&mut s.pending).into_values().collect();
                if let Some(l) = s.lanes[1].take() {
                    l.close();
                }
            }
            if s.epoch != 0 {
                self.counters.reconnects.fetch_add(1, Relaxed);
            }
            s.epoch = welcome.epoch;
            s.root = Some(welcome.root);
            s.whole = welcome.whole;
            s.phase = Phase::Up;
            s.lost = None;
            s.heard = Instant::now();
            s.pinged = false;
            s.lanes[0] = Some(lane.clone());
            let resend: Vec<_> = s
                .pending
                .values()
                .filter(|p| p.lane == Which::Names)
                .map(|p| p.frame.clone())
                .collect();
            // Under the lock: later requests go behind these.
            resend.iter().for_each(|f| lane.send(f));
            let join = s.pending.values().any(|p| p.lane == Which::Bytes) && s.lanes[1].is_none();
            (std::mem::take(&mut s.waiting), void, join)
        };
        self.listen(core, Which::Names, frames, lane);
        void.into_iter()
            .for_each(|p| (p.done)(core, Err(libc::EIO)));
        jobs.into_iter().for_each(|(_, j)| j(core, Ok(())));
        if resend {
            self.join(core);
        }
    }

    fn failed(&self, core: &Arc<C>, errno: i32) {
        let (jobs, void) = {
            let mut s = lock(&self.state);
            let now = Instant::now();
            s.phase = Phase::Failed { at: now, errno };
            let since = *s.lost.get_or_insert(now);
            let over = since.elapsed() >= core.deadline() || errno != libc::EHOSTUNREACH;
            let jobs = if over {
                std::mem::take(&mut s.waiting)
            } else {
                Vec::new()
            };
            let void = match errno {
                libc::EHOSTUNREACH => BTreeMap::new(),
                _ => std::mem::take(&mut s.pending),
            };
            (jobs, void)
        };
        for (_, j) in jobs {
            self.counters.errors.fetch_add(1, Relaxed);
            j(core, Err(errno));
        }
        void.into_values().for_each(|p| (p.done)(core, Err(errno)));
    }

    /// Connects the stream of bytes.
    fn join(self: &Arc<Self>, core: &Arc<C>) {
        {
            let mut s = lock(&self.state);
            if s.joining || s.lanes[1].is_some() || s.phase != Phase::Up {
                return;
            }
            s.joining = true;
        }
        let (me, weak) = (self.clone(), Arc::downgrade(core));
        let thread = std::thread::Builder::new().name("mfs-connect".into());
        let began = thread.spawn(move || {
            let Some(core) = weak.upgrade() else { return };
            let end = me.open(&core, Which::Bytes);
            let mut s = lock(&me.state);
            s.joining = false;
            match end {
                Ok((frames, lane, w)) if w.epoch == s.epoch && s.phase == Phase::Up => {
                    s.lanes[1] = Some(lane.clone());
                    for p in s.pending.values().filter(|p| p.lane == Which::Bytes) {
                        lane.send(&p.frame);
                    }
                    drop(s);
                    me.listen(&core, Which::Bytes, frames, lane);
                }
                Ok((_, lane, _)) => {
                    // Another server than that of the names: it was restarted.
                    lane.close();
                    if let Some(l) = &s.lanes[0] {
                        l.close();
                    }
                }
                Err(_) => {
                    if let Some(l) = &s.lanes[0] {
                        l.close();
                    }
                }
            }
        });
        if began.is_err() {
            lock(&self.state).joining = false;
        }
    }

    fn listen(
        self: &Arc<Self>,
        core: &Arc<C>,
        which: Which,
        frames: FrameReader<Reader>,
        lane: Arc<Lane>,
    ) {
        let (me, weak, on) = (self.clone(), Arc::downgrade(core), lane.clone());
        let began = std::thread::Builder::new()
            .name("mfs-receive".into())
            .spawn(move || {
                me.receive(&weak, which, frames);
                on.close();
                if let Some(core) = weak.upgrade() {
                    me.broken(&core, which, &on);
                }
            });
        if began.is_err() {
            lane.close();
            self.broken(core, which, &lane);
        }
    }

    fn receive(&self, core: &Weak<C>, which: Which, mut frames: FrameReader<Reader>) {
        loop {
            let (id, head, data) = match frames.raw() {
                Ok(x) => x,
                Err(e) => {
                    tracing::debug!(node = %self.name, uid = self.uid, ?which, "file stream: {e}");
                    return;
                }
            };
            let Some(core) = core.upgrade() else { return };
            if id == EVENT {
                match postcard::from_bytes::<Event>(head) {
                    Ok(e) => self.event(&core, e),
                    Err(_) => return,
                }
                lock(&self.state).heard = Instant::now();
                continue;
            }
            let Ok(reply) = postcard::from_bytes::<Reply>(head) else {
                return;
            };
            let found = {
                let mut s = lock(&self.state);
                s.heard = Instant::now();
                s.pinged = false;
                s.pending.remove(&id)
            };
            match found {
                Some(p) => {
                    self.counters.calls.fetch_add(1, Relaxed);
                    self.counters.latency.add(p.since.elapsed());
                    let end = match reply {
                        Reply::Error(e) if (1..4096).contains(&e) => Err(e),
                        Reply::Error(_) => Err(libc::EIO),
                        r => Ok((r, data)),
                    };
                    (p.done)(&core, end);
                }
                None => {
                    // Of a stream that was replaced an answer may come twice: only what was given up is given back.
                    if lock(&self.state).given_up.remove(&id) {
                        self.unwanted(&reply);
                    }
                }
            }
        }
    }

    /// The answer to a call that was given up: what it made is given back.
    fn unwanted(&self, r: &Reply) {
        let of = lock(&self.state).of;
        let close = |file: u64| {
            let lane = lock(&self.state).lanes[0].clone();
            if let Some(l) = lane {
                // The answer to it is unwanted, too, and says nothing.
                let id = self.number();
                l.send(&Arc::new(encode(id, &Request::Close { file }, b"").into()));
            }
        };
        match r {
            Reply::Entry(e) => self.forget(of, vec![(e.id, 1)]),
            Reply::Opened { file, .. } => close(*file),
            Reply::Created { entry, file, .. } => {
                close(*file);
                self.forget(of, vec![(entry.id, 1)]);
            }
            Reply::Dir { entries, .. } => {
                let ids = entries.iter().filter_map(|e| e.entry.as_ref());
                self.forget(of, ids.map(|e| (e.id, 1)).collect());
            }
            _ => {}
        }
    }

    fn number(&self) -> u64 {
        let mut s = lock(&self.state);
        s.next += 1;
        s.next
    }

    fn event(&self, core: &Arc<C>, e: Event) {
        self.counters.invalidations.fetch_add(1, Relaxed);
        let of = |id: &u64| lock(&self.state).index.get(id).copied();
        match e {
            Event::Name {
                dir, name, child, ..
            } => {
                if let Some(dir) = of(&dir) {
                    core.changed(self.node, Change::Name(dir, name));
                }
                if let Some(n) = child.as_ref().and_then(of) {
                    core.changed(self.node, Change::Attr(n));
                }
            }
            Event::Attr { node } => {
                if let Some(n) = of(&node) {
                    core.changed(self.node, Change::Attr(n));
                }
            }
            Event::All => core.changed(self.node, Change::All),
        }
    }

    fn broken(self: &Arc<Self>, core: &Arc<C>, which: Which, lane: &Arc<Lane>) {
        let again = {
            let mut s = lock(&self.state);
            let slot = &mut s.lanes[index(which)];
            if !slot.as_ref().is_some_and(|l| Arc::ptr_eq(l, lane)) {
                return;
            }
            *slot = None;
            if which == Which::Bytes {
                // Requests on their way are sent again on another one.
                let wanted = s.pending.values().any(|p| p.lane == Which::Bytes);
                drop(s);
                if wanted {
                    self.join(core);
                }
                return;
            }
            if let Some(l) = s.lanes[1].take() {
                l.close();
            }
            let wanted = !s.pending.is_empty() || !s.waiting.is_empty();
            if s.phase == Phase::Up {
                s.phase = if wanted {
                    Phase::Connecting
                } else {
                    Phase::Idle
                };
            }
            wanted
        };
        // Changes are not told of any more.
        core.changed(self.node, Change::All);
        if again {
            self.connect(core);
        }
    }

    /// Sends a request; `done` gets the answer. Before: the link is up, or was a moment ago.
    pub fn call(
        self: &Arc<Self>,
        core: &Arc<C>,
        which: Which,
        unique: u64,
        r: &Request,
        data: &[u8],
        done: impl FnOnce(&Arc<C>, Result<(Reply, &[u8]), i32>) + Send + 'static,
    ) -> u64 {
        let frame = |id| encode(id, r, data).into();
        let patient = matches!(
            r,
            Request::Setlk { wait: true, .. } | Request::Flock { wait: true, .. }
        );
        self.send(core, which, unique, patient, frame, done)
    }

    /// The same with a frame that is made for the request's number.
    pub fn send(
        self: &Arc<Self>,
        core: &Arc<C>,
        which: Which,
        unique: u64,
        patient: bool,
        frame: impl FnOnce(u64) -> Frame,
        done: impl FnOnce(&Arc<C>, Result<(Reply, &[u8]), i32>) + Send + 'static,
    ) -> u64 {
        let mut s = lock(&self.state);
        let now = Instant::now();
        s.used = now;
        if s.pending.len() >= PENDING_MAX {
            drop(s);
            done(core, Err(libc::EAGAIN));
            return 0;
        }
        s.next += 1;
        let id = s.next;
        let frame = Arc::new(frame(id));
        s.pending.insert(
            id,
            Pending {
                frame: frame.clone(),
                lane: which,
                since: now,
                unique,
                patient,
                done: Box::new(done),
            },
        );
        match &s.lanes[index(which)] {
            // Under the lock: frames leave in the order of their numbers.
            Some(l) => l.send(&frame),
            None if which == Which::Bytes && s.phase == Phase::Up => {
                drop(s);
                self.join(core);
            }
            None => {
                let idle = s.phase == Phase::Idle;
                if idle {
                    s.phase = Phase::Connecting;
                }
                drop(s);
                if idle {
                    self.connect(core);
                }
            }
        }
        id
    }

    /// A request need not wait any longer; it is answered with EINTR, unless it was made just now.
    pub fn cancel(&self, id: u64) {
        let lane = lock(&self.state).lanes[0].clone();
        if let Some(l) = lane {
            l.send(&Arc::new(encode(EVENT, &Request::Cancel(id), b"").into()));
        }
    }

    /// Whether a call of the kernel waits for an answer.
    pub fn has(&self, unique: u64) -> bool {
        lock(&self.state)
            .pending
            .values()
            .any(|p| p.unique == unique)
    }

    /// Gives up the request of a call whose process was killed.
    pub fn give_up(&self, core: &Arc<C>, unique: u64) -> bool {
        let p = {
            let mut s = lock(&self.state);
            let id = s
                .pending
                .iter()
                .find(|(_, p)| p.unique == unique)
                .map(|(id, _)| *id);
            id.and_then(|id| s.give_up(id))
        };
        match p {
            Some(p) => {
                (p.done)(core, Err(libc::EINTR));
                true
            }
            None => false,
        }
    }

    /// Looks after deadlines, silence and disuse; several times a second.
    pub fn tick(self: &Arc<Self>, core: &Arc<C>) {
        let deadline = core.deadline();
        let now = Instant::now();
        let mut over: Vec<Pending<C>> = Vec::new();
        let mut jobs: Vec<Job<C>> = Vec::new();
        let mut connect = false;
        let mut ping = None;
        {
            let mut s = lock(&self.state);
            let up = s.phase == Phase::Up;
            let silent = now.duration_since(s.heard);
            if up && s.pending.is_empty() {
                s.heard = now;
            } else if up && silent > deadline && s.pinged {
                tracing::warn!(node = %self.name, uid = self.uid, "it does not answer");
                s.lost.get_or_insert(now - deadline);
                s.lanes.iter().flatten().for_each(|l| l.close());
            } else if up && silent > deadline / 3 && !s.pinged {
                s.pinged = true;
                ping = s.lanes[0].clone();
            }
            if !up {
                let old: Vec<u64> = s
                    .pending
                    .iter()
                    .filter(|(_, p)| {
                        let since = if p.patient {
                            s.lost.unwrap_or(now)
                        } else {
                            p.since
                        };
                        now.duration_since(since) > deadline
                    })
                    .map(|(id, _)| *id)
                    .collect();
                over.extend(old.iter().filter_map(|id| s.give_up(*id)));
                let (late, rest) = std::mem::take(&mut s.waiting)
                    .into_iter()
                    .partition::<Vec<_>, _>(|(t, _)| now.duration_since(*t) > deadline);
                s.waiting = rest;
                jobs.extend(late.into_iter().map(|(_, j)| j));
                let wanted = !s.pending.is_empty() || !s.waiting.is_empty();
                let rest = match s.phase {
                    Phase::Failed { at, .. } => at.elapsed() >= RETRY,
                    phase => phase == Phase::Idle,
                };
                if rest && wanted {
                    s.phase = Phase::Connecting;
                    connect = true;
                }
            } else if s.pending.is_empty()
                && now.duration_since(s.used) > UNUSED
                && self.counters.open.load(Relaxed) == 0
            {
                s.lanes.iter().flatten().for_each(|l| l.close());
            }
        }
        if let Some(l) = ping {
            let id = self.number();
            l.send(&Arc::new(encode(id, &Request::Ping, b"").into()));
        }
        self.counters
            .errors
            .fetch_add((over.len() + jobs.len()) as u64, Relaxed);
        over.into_iter()
            .for_each(|p| (p.done)(core, Err(libc::EHOSTUNREACH)));
        jobs.into_iter()
            .for_each(|j| j(core, Err(libc::EHOSTUNREACH)));
        if connect {
            self.connect(core);
        }
    }

    /// The mount ends.
    pub fn close(&self) {
        lock(&self.state)
            .lanes
            .iter()
            .flatten()
            .for_each(|l| l.close());
    }
}
