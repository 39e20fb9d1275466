//! Connections to other daemons that stay open for a while.
//!
//! A program that starts elsewhere asks there for the time and for a host: a connection for each question would cost both
//! ends a handshake, ten times the answer. A daemon that keeps none closes the connection after its answer.

use super::connection::{Connection, dialled};
use super::protocol::{CallError, PeerAnswer, PeerAsk};
use armento_client::LineError;
use armento_link::Identity;
use armento_model::NodeName;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Idle for longer than this it is not used again: the other end closes it soon (`peer_server.rs`).
const IDLE_MAX: Duration = Duration::from_secs(8);
/// Kept at once; the one that was used longest ago gives way.
const KEPT_MAX: usize = 256;

/// An idle connection, and what it was made with.
struct Kept {
    connection: Connection,
    addr: SocketAddr,
    /// Of the revocation list when it was made: a node that was removed since proves nothing by it.
    epoch: u64,
    since: Instant,
}

/// At most one to each node.
#[derive(Default)]
pub struct Connections(Mutex<HashMap<NodeName, Kept>>);

impl Connections {
    /// Asks `to`, over the connection that is there or a new one. Blocks for at most about twice `timeout`.
    ///
    /// `epoch` is that of the revocation list, `me` our identity for a new connection. A kept connection may end while
    /// we ask: then the question is asked again; every question may be asked twice.
    pub fn call(
        &self,
        epoch: u64,
        me: impl FnOnce() -> Identity,
        (to, addr): (&NodeName, SocketAddr),
        ask: &PeerAsk,
        timeout: Duration,
    ) -> Result<PeerAnswer, CallError> {
        if let Some(mut connection) = self.take(to, addr, epoch) {
            match connection.ask(ask, timeout) {
                Err(CallError::Line(e)) if has_ended(&e) => {}
                answer => return self.put(answer, (to, addr, epoch), connection),
            }
        }
        let mut connection = Connection::new(dialled(&me(), to, addr, timeout)?)?;
        let answer = connection.ask(ask, timeout);
        self.put(answer, (to, addr, epoch), connection)
    }

    fn take(&self, to: &NodeName, addr: SocketAddr, epoch: u64) -> Option<Connection> {
        let kept = self.lock().remove(to)?;
        let fresh = kept.since.elapsed() < IDLE_MAX && kept.addr == addr && kept.epoch == epoch;
        Some(kept.connection).filter(|c| fresh && c.is_silent())
    }

    /// Keeps a connection that works.
    fn put(
        &self,
        answer: Result<PeerAnswer, CallError>,
        (to, addr, epoch): (&NodeName, SocketAddr, u64),
        connection: Connection,
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
            connection,
            addr,
            epoch,
            since,
        };
        all.insert(to.clone(), kept);
        answer
    }

    /// Round trip of the connection that is kept to `to`, as the kernel measured it, microseconds.
    pub fn rtt_us(&self, to: &NodeName) -> Option<u64> {
        self.lock().get(to)?.connection.rtt_us()
    }

    /// Closes those that were idle for too long.
    pub fn trim(&self) {
        self.lock()
            .retain(|_, kept| kept.since.elapsed() < IDLE_MAX);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It has ended, as opposed to having timed out.
fn has_ended(e: &LineError) -> bool {
    match e {
        LineError::Closed => true,
        LineError::Io(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        _ => false,
    }
}
