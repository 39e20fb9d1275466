//! The sending side of one stream.
//!
//! Short frames are written by who has them, as long as the socket takes them; long ones, and those behind them, by a
//! thread of the stream: the thread that reads the kernel's requests never waits for a network.
//! Locks: [`Lane::queue`], then [`Lane::writer`].

use crate::protocol::DATA_MAX;
use crate::sync::lock;
use armento_link::Writer;
use armento_wire::session::Outlet;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::ops::{Deref, Range};
use std::sync::{Arc, Condvar, Mutex};

/// Longest frame that is written at once: well below the third of a socket's buffer that is free then.
const SHORT: usize = 16 << 10;

/// Length of the buffers into which the kernel's requests are read: the longest write, and what is before it.
pub const BUFFER: usize = DATA_MAX + (64 << 10);
/// Buffers that wait to be used again, at most: twice the window of a link.
const SPARE_MAX: usize = 12;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer for the kernel's requests.
pub fn buffer() -> Vec<u8> {
    lock(&SPARE).pop().unwrap_or_else(|| vec![0; BUFFER])
}

/// A frame to be sent, somewhere in a buffer.
pub struct Frame {
    buf: Vec<u8>,
    part: Range<usize>,
}

impl Frame {
    pub fn within(buf: Vec<u8>, part: Range<usize>) -> Frame {
        Frame { buf, part }
    }
}

impl From<Vec<u8>> for Frame {
    fn from(buf: Vec<u8>) -> Frame {
        let part = 0..buf.len();
        Frame { buf, part }
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buf.get(self.part.clone()).unwrap_or_default()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.buf.len() == BUFFER {
            let mut spare = lock(&SPARE);
            if spare.len() < SPARE_MAX {
                spare.push(std::mem::take(&mut self.buf));
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Arc<Frame>>,
    writing: bool,
    closed: bool,
}

pub struct Lane {
    queue: Mutex<Queue>,
    more: Condvar,
    writer: Mutex<Writer>,
    socket: TcpStream,
}

impl Lane {
    pub fn start(writer: Writer, socket: TcpStream) -> std::io::Result<Arc<Lane>> {
        let lane = Arc::new(Lane {
            queue: Mutex::default(),
            more: Condvar::new(),
            writer: Mutex::new(writer),
            socket,
        });
        let me = lane.clone();
        std::thread::Builder::new()
            .name("mfs-send".into())
            .spawn(move || me.run())?;
        Ok(lane)
    }

    /// The frame goes behind those that were sent before. What is in the queue is bounded by the requests and posted
    /// writes that a link may have on their way.
    pub fn send(&self, frame: &Arc<Frame>) {
        let mut q = lock(&self.queue);
        if q.closed {
            return;
        }
        if frame.len() <= SHORT && q.frames.is_empty() && !q.writing {
            let mut w = lock(&self.writer);
            if w.takes_more() {
                drop_error(w.write_all(frame).and_then(|()| w.flush()), &self.socket);
                return;
            }
        }
        q.frames.push_back(frame.clone());
        self.more.notify_one();
    }

    fn run(&self) {
        let mut q = lock(&self.queue);
        loop {
            if q.closed {
                return;
            }
            let Some(frame) = q.frames.pop_front() else {
                q = self
                    .more
                    .wait(q)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            q.writing = true;
            drop(q);
            {
                let mut w = lock(&self.writer);
                drop_error(w.write_all(&frame).and_then(|()| w.flush()), &self.socket);
            }
            drop(frame);
            q = lock(&self.queue);
            q.writing = false;
        }
    }

    /// The stream ends, on both sides; its reader notices.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let mut q = lock(&self.queue);
        q.closed = true;
        q.frames.clear();
        self.more.notify_all();
    }
}

/// A failed write ends the stream: its reader takes care of the rest.
fn drop_error(r: std::io::Result<()>, socket: &TcpStream) {
    if r.is_err() {
        let _ = socket.shutdown(Shutdown::Both);
    }
}
