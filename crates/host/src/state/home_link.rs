//! The link home: one stream, over one connection after the other; what is sent over it, and the answers that are awaited.

use super::posts::{LINGER, Posts, Target};
use crate::sync::lock;
use armento_link::{Reader, Writer};
use armento_tracee::spawn;
use armento_wire::call::{self, Call};
use armento_wire::session::{Closer, Session};
use armento_wire::talk::{
    self, Posted, Resume, ServedRead, SessionId, TALK, ToHome, ToHost, WELCOME,
};
use armento_wire::{WireError, write_frame};
use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Usage and a sign of life go home this often where a guest came lately …
pub const PULSE: Duration = Duration::from_millis(500);
/// … and else: home worries after two seconds (`SILENT`, `keeper/src/hosts/connect.rs`). Each wakes four threads, here and at
/// home, and programs that move in turns leave an empty host on every node they were on.
pub const PULSE_CALM: Duration = Duration::from_secs(1);
/// … and while no guest is here: home waits longer, too (`SILENT_EMPTY`).
pub const PULSE_EMPTY: Duration = Duration::from_secs(3);
/// Read at once: many small frames. Long ones do not pass through it.
const BUFFER: usize = 16 << 10;
/// How long a question waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

pub type HomeReader = BufReader<Reader>;

pub struct HomeLink {
    pub session: Session<Writer>,
    id: SessionId,
    /// That of the newest connection.
    epoch: Mutex<Option<u32>>,
    /// Held by the thread that reads the stream.
    reading: Mutex<()>,
    /// The engine version that home uses with us.
    pub engine: u32,
    /// Without home for so long every guest is held …
    pub freeze: Duration,
    /// … and for so long the host ends.
    pub dead: Duration,
    /// Home was not there for `freeze`: every guest is held.
    pub disconnected: AtomicBool,
    /// Answers awaited by threads of the host, by sequence number.
    answers: Mutex<HashMap<u32, Sender<ToHost>>>,
    next: AtomicU32,
    posts: Mutex<Posts>,
    /// Written bytes wait for more to come.
    lingers: Condvar,
}

impl HomeLink {
    /// Of home's limits and this node's the shorter ones hold: home's own end is then never before this host's.
    pub fn new(engine: u32, first: &Resume, (freeze_ms, dead_ms): (u64, u64)) -> HomeLink {
        HomeLink {
            session: Session::default(),
            id: first.session,
            engine,
            epoch: Mutex::new(None),
            reading: Mutex::new(()),
            freeze: Duration::from_millis(first.freeze_ms.min(freeze_ms)),
            dead: Duration::from_millis(first.dead_ms.min(dead_ms)),
            disconnected: AtomicBool::new(false),
            answers: Mutex::default(),
            next: AtomicU32::new(1),
            posts: Mutex::default(),
            lingers: Condvar::new(),
        }
    }

    /// The right to read, for a connection that is newer than all others: those end. `None`: it is not newer.
    pub fn claim(&self, resume: &Resume) -> Option<MutexGuard<'_, ()>> {
        if resume.session != self.id {
            // Home has declared this host dead and begins anew: the old session must not go on.
            eprintln!("home begins anew: this host ends");
            std::process::exit(0);
        }
        let newer = |last: Option<u32>| last.is_none_or(|e| e < resume.epoch);
        let mut epoch = lock(&self.epoch);
        if !newer(*epoch) {
            return None;
        }
        *epoch = Some(resume.epoch);
        drop(epoch);
        self.session.cut();
        let reading = lock(&self.reading);
        // Another may have come while we waited.
        (*lock(&self.epoch) == Some(resume.epoch)).then_some(reading)
    }

    /// Carries the stream on from where it stands. Before: the connection has its `claim`.
    pub fn take_up(
        self: &Arc<HomeLink>,
        resume: &Resume,
        (socket, r, mut w): (TcpStream, Reader, Writer),
    ) -> Result<HomeReader, WireError> {
        let heard = self.session.heard().to_le_bytes();
        write_frame(&mut w, WELCOME, &[&heard])?;
        let closer: Closer = Box::new(move || drop(socket.shutdown(Shutdown::Both)));
        if let Some(again) = self.session.attach(w, closer, resume.heard)? {
            let home = self.clone();
            if let Err(e) = spawn::start("again", move || again.run(&home.session)) {
                self.session.cut();
                return Err(e.into());
            }
        }
        Ok(BufReader::with_capacity(BUFFER, r))
    }

    /// How often a sign of life goes home, `most` at most: three pulses before any guest is frozen.
    pub fn pulse(&self, most: Duration) -> Duration {
        (self.freeze / 3).clamp(PULSE, most)
    }

    pub fn reads(&self) -> MutexGuard<'_, ()> {
        lock(&self.reading)
    }

    /// Sends a message home, as soon as there is a connection, behind what was posted. Without one for too long the host
    /// ends.
    pub fn send(&self, m: &ToHome) {
        self.flush();
        let _ = self.session.send(TALK, &[&talk::encode(m)]);
    }

    /// Sends a call; what was posted before it: its reply says that this was made.
    pub fn send_call(&self, c: &Call) -> Posted {
        let before = self.flush();
        let head = call::call_head(c);
        let _ = self.session.send(call::CALL, &[&head, &c.packed.data]);
        before
    }

    /// Posts a write whose bytes `read` appends. False: it is to be forwarded.
    pub fn post_write(
        &self,
        target: Target,
        len: u64,
        read: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> bool {
        let mut posts = lock(&self.posts);
        self.send_reads(posts.take_reads());
        if !posts.takes(len) {
            return false;
        }
        if let Some(before) = posts.before(target) {
            self.send_post(&before);
        }
        let first = posts.is_empty();
        if posts.add(target, Instant::now(), read).is_none() {
            return false;
        }
        if let Some(full) = posts.full() {
            self.send_post(&full);
        } else if first {
            self.lingers.notify_one();
        }
        true
    }

    /// Tells home of a read that was answered here, soon: before anything else that is sent.
    pub fn tell_read(&self, read: ServedRead) {
        let mut posts = lock(&self.posts);
        let first = posts.is_empty();
        match posts.add_read(read) {
            Some(list) => self.send_reads(list),
            None if first => self.lingers.notify_one(),
            None => {}
        }
    }

    /// Under the lock of `posts`, as [`HomeLink::send_post`]: each descriptor's are bounded (`readahead.rs`).
    fn send_reads(&self, list: Vec<ServedRead>) {
        if !list.is_empty() {
            let told = talk::encode(&ToHome::Reads { list });
            let _ = self.session.send_bounded(TALK, &[&told]);
        }
    }

    /// Posts another call, behind what was posted.
    pub fn post(&self, c: &Call) {
        let mut posts = lock(&self.posts);
        self.send_reads(posts.take_reads());
        if let Some(before) = posts.take() {
            self.send_post(&before);
        }
        posts.add_call();
        self.send_post(c);
    }

    /// Sends what was posted and waits here; all that was posted so far.
    fn flush(&self) -> Posted {
        let mut posts = lock(&self.posts);
        self.send_reads(posts.take_reads());
        if let Some(c) = posts.take() {
            self.send_post(&c);
        }
        posts.posted()
    }

    /// Under the lock of `posts`, which the thread that frees space takes as well: it must not wait for space. What was
    /// posted is bounded by itself.
    fn send_post(&self, c: &Call) {
        let head = call::call_head(c);
        let _ = self
            .session
            .send_bounded(call::CALL, &[&head, &c.packed.data]);
    }

    /// Home has made so much of what was posted.
    pub fn posts_made(&self, made: Posted) {
        lock(&self.posts).made(made);
    }

    /// Whether home may not have made all that was posted.
    pub fn posts_pending(&self) -> bool {
        lock(&self.posts).pending()
    }

    /// Sends, for ever, what has waited long enough for more to come.
    pub fn send_lingering(&self) {
        loop {
            let posts = lock(&self.posts);
            let some = self.lingers.wait_while(posts, |p| p.is_empty());
            drop(some);
            std::thread::sleep(LINGER);
            let mut posts = lock(&self.posts);
            self.send_reads(posts.take_reads());
            if let Some(c) = posts.old(Instant::now()) {
                self.send_post(&c);
            }
        }
    }

    /// A number for a call or a question.
    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks home something and waits for its answer, at most [`ANSWER_MAX`].
    pub fn ask(&self, build: impl FnOnce(u32) -> ToHome) -> Option<ToHost> {
        self.ask_stream(build).recv_timeout(ANSWER_MAX).ok()
    }

    /// The same, for an answer that comes in parts or that is not waited for at once.
    pub fn ask_stream(&self, build: impl FnOnce(u32) -> ToHome) -> Receiver<ToHost> {
        let seq = self.number();
        let (tx, rx) = channel();
        lock(&self.answers).insert(seq, tx);
        self.send(&build(seq));
        rx
    }

    /// An answer, or a part of one, has come.
    pub fn answered(&self, seq: u32, m: ToHost, last: bool) {
        let mut a = lock(&self.answers);
        let tx = if last {
            a.remove(&seq)
        } else {
            a.get(&seq).cloned()
        };
        if let Some(tx) = tx {
            let _ = tx.send(m);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_connections_may_read_and_the_shorter_limits_hold() {
        let resume = |epoch| Resume {
            session: SessionId(7),
            epoch,
            heard: 0,
            freeze_ms: 3000,
            dead_ms: 9000,
        };
        let home = HomeLink::new(28, &resume(0), (10_000, 5000));
        assert_eq!(home.freeze, Duration::from_secs(3));
        assert_eq!(home.dead, Duration::from_secs(5));
        assert!(home.claim(&resume(0)).is_some());
        assert!(home.claim(&resume(0)).is_none(), "it was repeated");
        assert!(home.claim(&resume(2)).is_some());
        assert!(home.claim(&resume(1)).is_none(), "it is older");
    }

    #[test]
    fn three_pulses_come_before_a_freeze() {
        let pulse = |freeze_ms, most: Duration| {
            let resume = Resume {
                session: SessionId(7),
                epoch: 0,
                heard: 0,
                freeze_ms,
                dead_ms: 30_000,
            };
            let home = HomeLink::new(28, &resume, (10_000, 30_000));
            home.pulse(most).as_millis()
        };
        let check = |most, want| {
            let got = [100, 1500, 2100, 10_000].map(|freeze_ms| pulse(freeze_ms, most));
            assert_eq!(got, want);
        };
        check(PULSE_CALM, [500, 500, 700, 1000]);
        check(PULSE_EMPTY, [500, 500, 700, 3000]);
    }
}
