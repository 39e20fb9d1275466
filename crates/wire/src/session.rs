//! A stream of frames that outlives its connections: each end receives every frame of the other once, in order, however
//! often the connection between them breaks.
//!
//! ```text
//! frame = length u32 (of what follows) · kind u8 · number u64 · heard u64 · body
//! ```
//! Each end numbers its frames from 1 and keeps them until the other end has acknowledged them; every frame
//! acknowledges the frames of the other direction (`heard`). A frame with number 0 is only an acknowledgement. A new
//! connection begins with `heard` of both ends, and continues after it. No thread waits for an acknowledgement: an end
//! that has received much and sent nothing sends one ([`ACK_AT`]), which a conversation of calls and replies never
//! needs.
//!
//! Locks: `out` is held while a frame is written, `line` and `marks` briefly, inside or outside of it. Reading takes
//! none. The session opens no connection; its owner does, passes the writer ([`Session::attach`]) and reads
//! ([`Session::hear`]).

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

/// Bytes received, each frame counted as at least [`SMALL`], after which an end that sends nothing acknowledges.
const ACK_AT: usize = 256 << 10;
const SMALL: usize = 4 << 10;
/// Bytes written at once when a new connection takes over.
const PIECE: usize = 256 << 10;
/// Limit of frames with a pending time mark: a minute of frames that are sent twice a second.
const MARKS_MAX: usize = 128;
/// Polling interval of a thread that waits for space: the reader, which frees space, takes no lock.
const LOOK: Duration = Duration::from_millis(20);

/// The writer of a session.
pub trait Outlet: Write {
    /// Whether a few KiB could be written without waiting for the peer.
    fn takes_more(&self) -> bool;
}

/// Ends a connection, from any thread: its reader and writer fail from then on.
pub type Closer = Box<dyn Fn() + Send>;

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that frees space, or for which such threads wait: it may exceed the usual limit twofold
/// before it gets an error.
pub fn never_wait() {
    NEVER_WAITS.set(true);
}

pub struct Session<W> {
    out: Mutex<Out<W>>,
    /// Space was freed, or none will be.
    room: Condvar,
    /// The connection in use: its stamp, and how to end it.
    line: Mutex<Option<(u64, Closer)>>,
    /// Number of the last frame received, …
    heard: AtomicU64,
    /// … the bytes of it that were not acknowledged yet, …
    unacknowledged: AtomicUsize,
    /// … and the last number that the peer has acknowledged.
    acked: AtomicU64,
    /// Number of the last frame sent.
    sent: AtomicU64,
    over: AtomicBool,
    marks: Mutex<Marks>,
}

struct Out<W> {
    kept: Kept,
    /// `None`: there is no connection, or kept frames are being written.
    w: Option<W>,
    /// Counts the connections.
    stamp: u64,
}

struct Marks {
    /// Frames and the times right before they were sent.
    sent: VecDeque<(u64, Instant)>,
    answered: Instant,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a bug of ours; the data stays usable for the others.
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
            unacknowledged: AtomicUsize::new(0),
            acked: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            over: AtomicBool::new(false),
            marks: Mutex::new(Marks {
                sent: VecDeque::new(),
                answered: Instant::now(),
            }),
        }
    }
}

impl<W: Outlet> Session<W> {
    /// Sends one frame. After `Ok` the peer receives it, unless the session ends first.
    pub fn send(&self, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
        let times = if NEVER_WAITS.get() { 2 } else { 1 };
        self.enqueue(kind, parts, times).map(drop)
    }

    /// The same without waiting for space, for frames whose sum their sender bounds well below the usual limit.
    pub fn send_bounded(&self, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
        self.enqueue(kind, parts, 2).map(drop)
    }

    /// The same, and [`Session::answered`] will return when it was acknowledged.
    pub fn send_marked(&self, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
        // Taken before it is sent: the peer receives it later than this.
        let at = Instant::now();
        let number = self.enqueue(kind, parts, 1)?;
        let mut marks = lock(&self.marks);
        if marks.sent.len() < MARKS_MAX {
            marks.sent.push_back((number, at));
        }
        Ok(())
    }

    /// `times`: 2 for a frame that must not wait, 1 otherwise.
    fn enqueue(&self, kind: u8, parts: &[&[u8]], times: usize) -> Result<u64, WireError> {
        let body = parts.iter().map(|p| p.len()).sum::<usize>();
        if body >= FRAME_MAX {
            return Err(WireError::TooLong(body + 1));
        }
        let mut out = self.make_room(body, times)?;
        self.unacknowledged.store(0, Ordering::Relaxed);
        let heard = self.heard.load(Ordering::Acquire);
        let number = out.kept.push(kind, heard, parts);
        self.sent.store(number, Ordering::Release);
        let Out { kept, w, stamp } = &mut *out;
        let Some(open) = w else { return Ok(number) };
        let Some(frame) = kept.next() else {
            return Ok(number);
        };
        if open.write_all(frame).and_then(|()| open.flush()).is_err() {
            // Its reader notices that, too; the frame goes over the next connection.
            *w = None;
            let stamp = *stamp;
            drop(out);
            self.cut_line(stamp);
        }
        Ok(number)
    }

    fn make_room(&self, body: usize, times: usize) -> Result<MutexGuard<'_, Out<W>>, WireError> {
        let mut out = lock(&self.out);
        loop {
            if self.over.load(Ordering::Acquire) {
                return Err(WireError::Over);
            }
            out.kept.forget(self.acked.load(Ordering::Acquire));
            if out.kept.takes(body, 1) {
                return Ok(out);
            }
            if times > 1 || NEVER_WAITS.get() {
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
            self.acknowledged(word(13))?;
            let next = self.heard.load(Ordering::Relaxed) + 1;
            if number > next || (number == 0) != (kind == ACK) || number == 0 && body > 0 {
                return Err(WireError::Garbled("frame in its order"));
            }
            if number == next {
                self.heard.store(number, Ordering::Release);
                let more = (HEAD + body).max(SMALL);
                if self.unacknowledged.fetch_add(more, Ordering::Relaxed) + more >= ACK_AT {
                    self.acknowledge();
                }
                return Ok(kind);
            }
        }
    }

    /// Sends an acknowledgement, if that does not block: otherwise the next frame carries it.
    pub fn acknowledge(&self) {
        let Ok(mut out) = self.out.try_lock() else {
            return;
        };
        let heard = self.heard.load(Ordering::Acquire);
        let Some(w) = out.w.as_mut().filter(|w| w.takes_more()) else {
            return;
        };
        self.unacknowledged.store(0, Ordering::Relaxed);
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

    /// The peer has acknowledged frames up to `number`.
    fn acknowledged(&self, number: u64) -> Result<(), WireError> {
        if number > self.sent.load(Ordering::Acquire) {
            return Err(WireError::Garbled("acknowledgement of what was sent"));
        }
        self.acked.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }

    /// Number of frames that were sent and not acknowledged.
    pub fn unheard(&self) -> u64 {
        let sent = self.sent.load(Ordering::Acquire);
        sent.saturating_sub(self.acked.load(Ordering::Acquire))
    }

    /// Number of the last frame received: a new connection begins with it.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// From now on frames go over `w`, of which the other end has received frames up to `heard`. The previous
    /// connection is ended. After: the result sends again what is missing; until that has run, new frames wait after
    /// it. Before: no thread reads from the previous connection any more, or `heard` was smaller than what was
    /// received.
    pub fn attach(&self, w: W, closer: Closer, heard: u64) -> Result<Option<Again<W>>, WireError> {
        self.cut();
        self.acknowledged(heard)?;
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

    /// Whether there is a connection, as far as known.
    pub fn connected(&self) -> bool {
        lock(&self.line).is_some()
    }

    /// Whether a short frame could be sent at once, for threads that may not block.
    pub fn takes_more(&self) -> bool {
        self.out.try_lock().is_ok_and(|out| {
            out.kept.takes(SMALL, 1) && out.w.as_ref().is_none_or(|w| w.takes_more())
        })
    }

    /// The time right before the last marked frame was sent that the peer has acknowledged: it was reachable since
    /// then. Before any acknowledgement it is the session's beginning.
    pub fn answered(&self) -> Instant {
        let acked = self.acked.load(Ordering::Acquire);
        let mut marks = lock(&self.marks);
        while let Some((_, at)) = marks.sent.pop_front_if(|m| m.0 <= acked) {
            marks.answered = at;
        }
        marks.answered
    }

    /// The peer is dead: drops all kept frames; sending fails from now on.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.cut();
        self.room.notify_all();
        // A writing thread fails at once, because the connection is ended.
        let mut out = lock(&self.out);
        out.kept.clear();
        out.w = None;
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Kept frames, on their way over a new connection.
pub struct Again<W> {
    stamp: u64,
    w: W,
}

impl<W: Outlet> Again<W> {
    /// Sends them; then other threads may write. The peer sends its kept frames at the same time: another thread must
    /// read.
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
