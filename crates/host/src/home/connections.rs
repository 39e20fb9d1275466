//! The connections that home and other hosts open.
//!
//! From: `host/src/start.rs`. Next: `messages.rs` (the stream of calls), `host/src/moves/arrive.rs`.

use super::messages;
use crate::calls;
use crate::moves;
use crate::state::Host;
use armento_client::api::HostStart;
use armento_client::engine;
use armento_link::Listener;
use armento_link::{Badge, Duplex, LinkError, Reader, Role, Writer};
use armento_model::common_engine;
use armento_tracee::spawn;
use armento_wire::bulk::HELLO;
use armento_wire::talk::{self, Hello, Purpose};
use armento_wire::{WireError, read_frame};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Reads the first frame of a connection.
pub fn hello(r: &mut Reader) -> Result<Hello, WireError> {
    let mut buf = Vec::new();
    if read_frame(r, &mut buf)? != HELLO {
        return Err(WireError::Garbled("hello"));
    }
    let h: Hello = talk::decode(&buf, "hello")?;
    // The peer says which version it uses: never a later one than ours, and at most one before.
    match common_engine(h.engine, engine()) {
        Some(common) if common == h.engine => Ok(h),
        _ => Err(WireError::Garbled("hello of our version")),
    }
}

/// Connections whose hello has not come yet: a tree has a few of its keeper's, and one a move of other hosts.
const PENDING_MAX: usize = 64;
/// How long it may take. A keeper has one in reserve for 5 s (`keeper/src/hosts/connect.rs`).
const HELLO_MAX: Duration = Duration::from_secs(10);
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Counts a connection until its hello has come.
pub struct PendingHello;

impl PendingHello {
    /// `None`: there are too many, and this one is closed.
    pub fn take() -> Option<PendingHello> {
        let place = PendingHello;
        (PENDING.fetch_add(1, Ordering::AcqRel) < PENDING_MAX).then_some(place)
    }
}

impl Drop for PendingHello {
    fn drop(&mut self) {
        PENDING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads the hello of a connection. Returns its socket as well, for options and to close it.
pub fn opened(link: Duplex) -> Result<(Hello, TcpStream, Reader, Writer), WireError> {
    let socket = link.socket().try_clone()?;
    let lost = |e: LinkError| WireError::Io(std::io::Error::other(e));
    let (mut r, w) = link.split().map_err(lost)?;
    socket.set_read_timeout(Some(HELLO_MAX))?;
    let h = hello(&mut r)?;
    socket.set_read_timeout(None)?;
    Ok((h, socket, r, w))
}

/// A connection that was admitted.
pub fn welcome(host: &Arc<Host>, link: Duplex, peer: &Badge, pending: PendingHello) {
    let Ok((h, socket, r, w)) = opened(link) else {
        return;
    };
    drop(pending);
    if h.tree != host.start.tree {
        return;
    }
    match h.purpose {
        Purpose::Calls(resume) => {
            let keeper = peer.role == Role::Keeper;
            if let Some(_claim) = keeper.then(|| host.home.claim(&resume)).flatten()
                && let Ok(reader) = host.home.take_up(&resume, (socket, r, w))
            {
                messages::read_messages(host, reader);
            }
        }
        Purpose::Bring(mv) => moves::receive(host, mv, r, w),
        Purpose::Object(object) => {
            // Home sees the broken stream: it tries a return again, and reports what is lost when a process ends.
            let _ = moves::send_object(host, object, w);
        }
        Purpose::Socket(connection) => calls::socket_came(host, connection, (r, w)),
        Purpose::Fetch(mv) => {
            // The Send may still be on its way over the other connection.
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                if let Some(tx) = host.meetings.take(mv) {
                    let _ = tx.send((r, w));
                    return;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

/// The keeper of this tree, or a host of this tree on any node.
pub fn admit(listening: &Listener, start: &HostStart) -> Result<(Duplex, Badge), LinkError> {
    let host = |peer: &Badge| peer.role == Role::Host && peer.tree == Some((start.tree, start.uid));
    listening.accept_if(Some(&start.expect), |peer| {
        *peer == start.expect || host(peer)
    })
}

/// Accepts connections, for ever.
pub fn accept(host: &Arc<Host>, listening: &Listener) {
    loop {
        match admit(listening, &host.start) {
            Ok((link, peer)) => {
                let Some(pending) = PendingHello::take() else {
                    continue;
                };
                let host = host.clone();
                // Without a thread the link is closed, and the other side reports it.
                let _ = spawn::start("welcome", move || welcome(&host, link, &peer, pending));
            }
            Err(LinkError::Refused(_)) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_a_hello_are_bounded() {
        let all: Vec<PendingHello> = (0..PENDING_MAX)
            .filter_map(|_| PendingHello::take())
            .collect();
        assert_eq!(all.len(), PENDING_MAX);
        assert!(PendingHello::take().is_none());
        drop(all);
        assert!(PendingHello::take().is_some());
    }
}
