//! Connections to other daemons that stay open for a while.
//!
//! A program that starts elsewhere asks there for the time and for a host: each question by itself costs both ends
//! a handshake, ten times the answer. Who does not keep connections closes them behind his answer, as all did once.

use super::{CallError, PeerAnswer, PeerAsk, dialled};
use crate::core::Node;
use armento_client::{LineError, encode, read_line, version};
use armento_link::{Duplex, LinkError, Reader, Writer};
use armento_model::NodeName;
use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Idle for longer than this it is not used again: the other end lets go of it soon (`serve.rs`).
const IDLE_MAX: Duration = Duration::from_secs(8);
/// Kept at once; the one that was used longest ago gives way.
const KEPT_MAX: usize = 64;

/// One connection on which questions are asked, one after the other.
pub(super) struct Line {
    socket: TcpStream,
    reader: BufReader<Reader>,
    writer: Writer,
}

impl Line {
    pub(super) fn new(duplex: Duplex) -> Result<Line, LinkError> {
        let socket = duplex.socket().try_clone()?;
        let (reader, writer) = duplex.split()?;
        let reader = BufReader::new(reader);
        Ok(Line {
            socket,
            reader,
            writer,
        })
    }

    /// No read or write waits longer than `timeout`.
    pub(super) fn ask(
        &mut self,
        ask: &PeerAsk,
        timeout: Duration,
    ) -> Result<PeerAnswer, CallError> {
        super::bound(&self.socket, timeout)?;
        let v = version::spoken();
        let line = serde_json::json!({"v": v, "ask": ask});
        let line = encode(&line)?;
        self.writer.write_all(&line).map_err(LineError::from)?;
        self.writer.flush().map_err(LineError::from)?;
        let super::Replied { v, reply } = read_line(&mut self.reader)?;
        if let Some(no) = version::too_old("the other daemon", v) {
            return Err(CallError::Refused(no));
        }
        match reply {
            super::Reply::Ok(answer) => Ok(answer),
            super::Reply::Err(refusal) => Err(CallError::Refused(refusal)),
        }
    }

    /// Nothing has come that nobody asked for: its end, above all.
    fn is_silent(&self) -> bool {
        let quiet = |socket: &TcpStream| -> std::io::Result<bool> {
            socket.set_nonblocking(true)?;
            let peeked = socket.peek(&mut [0]);
            socket.set_nonblocking(false)?;
            Ok(matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock))
        };
        quiet(&self.socket).unwrap_or(false)
    }
}

/// An idle connection, and what it rests on.
struct Kept {
    line: Line,
    addr: SocketAddr,
    /// Of the farm's news when it was made: who was removed since proves nothing by it.
    epoch: u64,
    since: Instant,
}

/// At most one to each node.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<NodeName, Kept>>);

impl Lines {
    /// Asks `to`, over the connection that is there or a new one. Blocks for at most about twice `timeout`.
    ///
    /// A kept connection may end while we ask: then the question is asked again. All of them may be.
    pub(crate) fn call(
        &self,
        node: &Node,
        (to, addr): (&NodeName, SocketAddr),
        ask: &PeerAsk,
        timeout: Duration,
    ) -> Result<PeerAnswer, CallError> {
        let epoch = node.news().epoch;
        if let Some(mut line) = self.take(to, addr, epoch) {
            match line.ask(ask, timeout) {
                Err(CallError::Line(e)) if has_ended(&e) => {}
                answer => return self.put(answer, (to, addr, epoch), line),
            }
        }
        let mut line = Line::new(dialled(&node.me(), to, addr, timeout)?)?;
        let answer = line.ask(ask, timeout);
        self.put(answer, (to, addr, epoch), line)
    }

    fn take(&self, to: &NodeName, addr: SocketAddr, epoch: u64) -> Option<Line> {
        let kept = self.lock().remove(to)?;
        let fresh = kept.since.elapsed() < IDLE_MAX && kept.addr == addr && kept.epoch == epoch;
        Some(kept.line).filter(|line| fresh && line.is_silent())
    }

    /// Keeps a connection that works.
    fn put(
        &self,
        answer: Result<PeerAnswer, CallError>,
        (to, addr, epoch): (&NodeName, SocketAddr, u64),
        line: Line,
    ) -> Result<PeerAnswer, CallError> {
        if !matches!(answer, Ok(_) | Err(CallError::Refused(_))) {
            return answer;
        }
        let mut all = self.lock();
        all.retain(|_, kept| kept.since.elapsed() < IDLE_MAX);
        if all.len() >= KEPT_MAX
            && let Some(oldest) = all.iter().min_by_key(|(_, k)| k.since)
        {
            let oldest = oldest.0.clone();
            all.remove(&oldest);
        }
        let since = Instant::now();
        let kept = Kept {
            line,
            addr,
            epoch,
            since,
        };
        all.insert(to.clone(), kept);
        answer
    }

    /// Closes those that nobody uses any more.
    pub(crate) fn trim(&self) {
        self.lock()
            .retain(|_, kept| kept.since.elapsed() < IDLE_MAX);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not that it took too long.
fn has_ended(e: &LineError) -> bool {
    match e {
        LineError::Closed => true,
        LineError::Io(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        _ => false,
    }
}
