//! The sending side of one stream.
//!
//! Short frames are written by who has them, as long as the socket takes them; long ones, and those behind them, by a
//! thread of the stream: the thread that reads the kernel's requests never waits for a network.
//! Locks: [`Lane::queue`], then [`Lane::writer`].

use crate::sync::lock;
use armento_link::Writer;
use armento_wire::session::Outlet;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Longest frame that is written at once: well below the third of a socket's buffer that is free then.
const SHORT: usize = 16 << 10;

#[derive(Default)]
struct Queue {
    frames: VecDeque<Arc<Vec<u8>>>,
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
    pub fn send(&self, frame: &Arc<Vec<u8>>) {
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
