//! A stream of frames that outlives its connections: what one end says the other hears once, in order, however often
//! the cable between them is cut.
//!
//! ```text
//! frame = length u32 (of what follows) · kind u8 · number u64 · heard u64 · body
//! ```
//! Each end numbers its frames from 1 and keeps them until the other says that it has heard them, which every frame
//! says of the frames the other way (`heard`); number 0 is a frame that says only that. A new connection begins with
//! both ends' `heard`, and goes on behind it. Nobody waits for an acknowledgement: who has heard much and said
//! nothing says so ([`SAY_AT`]), which a conversation of calls and replies never does.
//!
//! Locks: `out` is held while a frame is written, `line` and `marks` for moments, inside or outside of it. Reading takes none.
//! The session opens no connection; whoever does gives it the writer ([`Session::attach`]) and reads ([`Session::hear`]).

mod kept;

use crate::frame::fill;
use crate::{FRAME_MAX, WireError};
use kept::{ACK, HEAD, Kept};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes heard, each frame counted as at least [`SMALL`], after which an end that says nothing says that.
const SAY_AT: usize = 256 << 10;
const SMALL: usize = 4 << 10;
/// Written at once when a connection is taken up again.
const PIECE: usize = 256 << 10;
/// Frames whose hearing is looked for: a minute of those that are said twice a second.
const MARKS_MAX: usize = 128;
/// How often who waits for room looks: the reader, which makes it, takes no lock.
const LOOK: Duration = Duration::from_millis(20);

/// What a session writes to.
pub trait Outlet: Write {
    /// Would a few KiB be taken without waiting for the peer?
    fn takes_more(&self) -> bool;
}

/// Ends a connection, from any thread: its reader and writer fail from then on.
pub type Closer = Box<dyn Fn() + Send>;

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// This thread is one that makes room, or one for which those wait: it may say twice as much before it is told that
/// there is none.
pub fn never_wait() {
    NEVER_WAITS.set(true);
}

pub struct Session<W> {
    out: Mutex<Out<W>>,
    /// Room was made, or none will be.
    room: Condvar,
    /// The connection in use: its stamp, and how it is ended.
    line: Mutex<Option<(u64, Closer)>>,
    /// Number of the last frame that was heard here, …
    heard: AtomicU64,
    /// … what of that the peer was not told, …
    unsaid: AtomicUsize,
    /// … and of the last that the peer has heard.
    acked: AtomicU64,
    /// Number of the last frame said.
    said: AtomicU64,
    over: AtomicBool,
    marks: Mutex<Marks>,
}

struct Out<W> {
    kept: Kept,
    /// `None`: there is no connection, or somebody writes what was kept before.
    w: Option<W>,
    /// Counts the connections.
    stamp: u64,
}

struct Marks {
    /// Frames and when they were about to be said.
    said: VecDeque<(u64, Instant)>,
    answered: Instant,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a defect of ours; the data stays usable for the others.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl<W: Outlet> Default for Session<W> {
    fn default() -> Self {
        Session {
            out: Mutex::new(Out {
                kept: Kept::new(),
                w: None,
                stamp: 0,
            }),
            room: Condvar::new(),
            line: Mutex::new(None),
            heard: AtomicU64::new(0),
            unsaid: AtomicUsize::new(0),
            acked: AtomicU64::new(0),
            said: AtomicU64::new(0),
            over: AtomicBool::new(false),
            marks: Mutex::new(Marks {
                said: VecDeque::new(),
                answered: Instant::now(),
            }),
        }
    }
}

impl<W: Outlet> Session<W> {
    /// Says one frame. After `Ok` the peer hears it, unless the session ends first.
    pub fn send(&self, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
        self.say(kind, parts).map(drop)
    }

    /// The same, and [`Session::answered`] will tell when it was heard.
    pub fn send_marked(&self, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
        // Before it is said: the peer hears it later than this.
        let at = Instant::now();
        let number = self.say(kind, parts)?;
        let mut marks = lock(&self.marks);
        if marks.said.len() < MARKS_MAX {
            marks.said.push_back((number, at));
        }
        Ok(())
    }

    fn say(&self, kind: u8, parts: &[&[u8]]) -> Result<u64, WireError> {
        let body = parts.iter().map(|p| p.len()).sum::<usize>();
        if body >= FRAME_MAX {
            return Err(WireError::TooLong(body + 1));
        }
        let mut out = self.make_room(body)?;
        self.unsaid.store(0, Ordering::Relaxed);
        let heard = self.heard.load(Ordering::Acquire);
        let number = out.kept.push(kind, heard, parts);
        self.said.store(number, Ordering::Release);
        let Out { kept, w, stamp } = &mut *out;
        let Some(open) = w else { return Ok(number) };
        let Some(frame) = kept.next() else {
            return Ok(number);
        };
        if open.write_all(frame).and_then(|()| open.flush()).is_err() {
            // Its reader sees that, too; the frame goes over the next one.
            *w = None;
            let stamp = *stamp;
            drop(out);
            self.cut_line(stamp);
        }
        Ok(number)
    }

    fn make_room(&self, body: usize) -> Result<MutexGuard<'_, Out<W>>, WireError> {
        let mut out = lock(&self.out);
        loop {
            if self.over.load(Ordering::Acquire) {
                return Err(WireError::Over);
            }
            out.kept.forget(self.acked.load(Ordering::Acquire));
            if out.kept.takes(body, 1) {
                return Ok(out);
            }
            if NEVER_WAITS.get() {
                if out.kept.takes(body, 2) {
                    return Ok(out);
                }
                drop(out);
                self.end();
                return Err(WireError::Over);
            }
            let wait = self.room.wait_timeout(out, LOOK);
            out = wait.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Reads one frame into `buf` (replaced); returns its kind. One thread at a time.
    pub fn hear(&self, r: &mut impl Read, buf: &mut Vec<u8>) -> Result<u8, WireError> {
        loop {
            let mut head = [0u8; HEAD];
            r.read_exact(&mut head)?;
            let word = |i: usize| u64::from_le_bytes(head[i..i + 8].try_into().unwrap_or_default());
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some(body) = len.checked_sub(HEAD - 4).filter(|b| *b < FRAME_MAX) else {
                return Err(WireError::TooLong(len));
            };
            let (kind, number) = (head[4], word(5));
            fill(r, buf, body)?;
            self.told(word(13))?;
            let next = self.heard.load(Ordering::Relaxed) + 1;
            if number > next || (number == 0) != (kind == ACK) || number == 0 && body > 0 {
                return Err(WireError::Garbled("frame in its order"));
            }
            if number == next {
                self.heard.store(number, Ordering::Release);
                let more = (HEAD + body).max(SMALL);
                if self.unsaid.fetch_add(more, Ordering::Relaxed) + more >= SAY_AT {
                    self.acknowledge();
                }
                return Ok(kind);
            }
        }
    }

    /// Says what was heard, if it can be said without waiting: otherwise the next frame does.
    pub fn acknowledge(&self) {
        let Ok(mut out) = self.out.try_lock() else {
            return;
        };
        let heard = self.heard.load(Ordering::Acquire);
        let Some(w) = out.w.as_mut().filter(|w| w.takes_more()) else {
            return;
        };
        self.unsaid.store(0, Ordering::Relaxed);
        if w.write_all(&kept::ack(heard))
            .and_then(|()| w.flush())
            .is_err()
        {
            out.w = None;
            let stamp = out.stamp;
            drop(out);
            self.cut_line(stamp);
        }
    }

    /// The peer has heard up to `number`.
    fn told(&self, number: u64) -> Result<(), WireError> {
        if number > self.said.load(Ordering::Acquire) {
            return Err(WireError::Garbled("acknowledgement of what was said"));
        }
        self.acked.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }

    /// Frames that were said and that the peer is not known to have heard.
    pub fn unheard(&self) -> u64 {
        let said = self.said.load(Ordering::Acquire);
        said.saturating_sub(self.acked.load(Ordering::Acquire))
    }

    /// Number of the last frame that was heard: a new connection begins with it.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// From now on frames go over `w`, whose other end has heard up to `heard`. The connection before is ended.
    /// After: what is to be sent again is the result's; until that has run, new frames wait behind it.
    /// Before: nobody hears any more what came over the connection before, or `heard` said less than was.
    pub fn attach(&self, w: W, closer: Closer, heard: u64) -> Result<Option<Again<W>>, WireError> {
        self.cut();
        self.told(heard)?;
        let mut out = lock(&self.out);
        if self.over.load(Ordering::Acquire) {
            return Err(WireError::Over);
        }
        out.kept.forget(self.acked.load(Ordering::Acquire));
        out.kept.rewind();
        out.stamp += 1;
        *lock(&self.line) = Some((out.stamp, closer));
        if out.kept.unwritten() {
            out.w = None;
            let stamp = out.stamp;
            return Ok(Some(Again { stamp, w }));
        }
        out.w = Some(w);
        Ok(None)
    }

    /// Ends the connection in use, if there is one.
    pub fn cut(&self) {
        if let Some((_, close)) = lock(&self.line).take() {
            close();
        }
    }

    fn cut_line(&self, stamp: u64) {
        if let Some((_, close)) = lock(&self.line).take_if(|l| l.0 == stamp) {
            close();
        }
    }

    /// Is there a connection, as far as we know?
    pub fn connected(&self) -> bool {
        lock(&self.line).is_some()
    }

    /// Would a short frame be taken at once, from who may not wait?
    pub fn takes_more(&self) -> bool {
        self.out.try_lock().is_ok_and(|out| {
            out.kept.takes(SMALL, 1) && out.w.as_ref().is_none_or(|w| w.takes_more())
        })
    }

    /// When the last frame was about to be said, of those marked, that the peer is known to have heard: it has heard us
    /// since. Before any it is the session's beginning.
    pub fn answered(&self) -> Instant {
        let acked = self.acked.load(Ordering::Acquire);
        let mut marks = lock(&self.marks);
        while let Some((_, at)) = marks.said.pop_front_if(|m| m.0 <= acked) {
            marks.answered = at;
        }
        marks.answered
    }

    /// The peer is dead: nothing is kept, nothing more is said.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.cut();
        self.room.notify_all();
        // Whoever writes fails at once, for the connection is ended.
        let mut out = lock(&self.out);
        out.kept.clear();
        out.w = None;
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// What was said before, on its way over a new connection.
pub struct Again<W> {
    stamp: u64,
    w: W,
}

impl<W: Outlet> Again<W> {
    /// Sends it; then others may write. The peer sends us its own meanwhile: somebody must read.
    pub fn run(mut self, session: &Session<W>) {
        loop {
            let mut piece = Vec::new();
            let mut out = lock(&session.out);
            if out.stamp != self.stamp || session.is_over() {
                return;
            }
            while piece.len() < PIECE
                && let Some(f) = out.kept.next()
            {
                piece.extend_from_slice(f);
            }
            if piece.is_empty() {
                out.w = Some(self.w);
                return;
            }
            drop(out);
            let sent = self.w.write_all(&piece).and_then(|()| self.w.flush());
            if sent.is_err() {
                return session.cut_line(self.stamp);
            }
        }
    }
}

#[cfg(test)]
mod tests;
