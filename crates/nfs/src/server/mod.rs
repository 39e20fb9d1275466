//! Listens, and answers each connection in a thread of its own. Start at [`Server`].
//!
//! A connection's calls are answered one after the other: what a client sends ahead waits in the socket, so that no
//! queue is needed. No lock is held while a call is answered.

mod connection;
mod recent;

use crate::NfsError;
use crate::clients::{ClientStats, Connected};
use crate::export::{Exports, Resolver};
use crate::programs::{Session, World};
use crate::tree::{Trees, own_umask};
use armento_provision::view::Client;
use recent::Recent;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at once.
const CONNECTIONS_MAX: usize = 2048;
/// Connections of one address at once. KERNEL: nfs(5), nconnect: at most 16 for a mount.
const ADDRESS_MAX: u32 = 512;
/// Of a connection's thread; replies are built on the heap.
const STACK: usize = 256 << 10;
/// For the last reply of each connection when the server stops.
const LAST_REPLY_TIME: Duration = Duration::from_secs(2);
/// After a failed accept(2), when descriptors are short.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A server that runs until this is dropped.
pub struct Running {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Arc<TcpListener>,
    accepts: Option<JoinHandle<()>>,
}

struct Shared {
    world: Arc<World>,
    resolver: Box<dyn Resolver>,
    stops: AtomicBool,
    recent: Recent,
    connections: Mutex<Connections>,
    /// Told when a connection ends.
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, TcpStream>,
}

impl Server {
    /// Begins to serve. Port 0 is any free one: see [`Running::address`].
    pub fn bind(
        address: SocketAddr,
        exports: Exports,
        resolver: impl Resolver + 'static,
    ) -> Result<Running, NfsError> {
        let world = Arc::new(World::new(Trees::open(&exports)?));
        let listen = |cause| NfsError::Listen { address, cause };
        let listener = Arc::new(TcpListener::bind(address).map_err(listen)?);
        let address = listener.local_addr().map_err(listen)?;
        let shared = Arc::new(Shared {
            world,
            resolver: Box::new(resolver),
            stops: AtomicBool::new(false),
            recent: Recent::default(),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let accepts = std::thread::Builder::new().name("nfs".into()).spawn({
            let (shared, listener) = (shared.clone(), listener.clone());
            move || accept(&shared, &listener)
        })?;
        Ok(Running {
            shared,
            address,
            listener,
            accepts: Some(accepts),
        })
    }
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All clients since the beginning.
    pub fn clients(&self) -> Vec<ClientStats> {
        self.shared.world.clients.stats()
    }

    /// Serves these from now on; connections stay. After an error those before are served as before.
    pub fn replace(&self, exports: Exports) -> Result<(), NfsError> {
        self.shared.world.replace(Trees::open(&exports)?);
        Ok(())
    }

    /// Closes all connections and returns when no call is being answered.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        // KERNEL: shutdown(2) of a listening socket ends accept(2).
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
        // Replies that have begun are sent to their ends: libnfs 4 never recovers from half of one (its issue 424).
        self.shared.close(Shutdown::Read, Some(LAST_REPLY_TIME));
        self.shared.close(Shutdown::Both, None);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Closes connections and waits for their threads.
    fn close(&self, how: Shutdown, limit: Option<Duration>) {
        let until = limit.map(|l| Instant::now() + l);
        let mut connections = self.connections();
        for stream in connections.open.values() {
            let _ = stream.shutdown(how);
        }
        while !connections.open.is_empty() {
            let left = until.map_or(Duration::MAX, |u| {
                u.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return;
            }
            let woken = self.ended.wait_timeout(connections, left);
            (connections, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while !shared.stops.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, peer)) => {
                if let Err(why) = begin(shared, stream, peer) {
                    tracing::debug!(%peer, %why, "connection not served");
                }
            }
            // Too few descriptors, or shut down.
            Err(_) => std::thread::sleep(ACCEPT_AGAIN),
        }
    }
}

/// What a server without exports replies to the bytes of a client, until these break the protocol. It opens no file and
/// no socket: for fuzzing.
pub fn replies(bytes: &[u8]) -> Vec<Vec<u8>> {
    let world = Arc::new(World::new(Trees::default()));
    let address = Ipv4Addr::LOCALHOST.into();
    let client = Client {
        name: None,
        address,
    };
    let connected = world.clients.connect(address, ADDRESS_MAX);
    let counters = connected.map(|c| c.0.clone()).unwrap_or_default();
    let mut session = Session::new(world, client, 0, counters);
    connection::replies(&mut session, bytes)
}

/// One connection as long as it is served; dropped at its end, also after a panic.
struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections().open.remove(&self.number);
        self.shared.ended.notify_all();
    }
}

/// Starts a thread for a connection; an error says why it is closed.
fn begin(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> std::io::Result<()> {
    let refused = |why: &str| std::io::Error::other(why.to_owned());
    let client = connection::client(&*shared.resolver, peer.ip());
    let client = client.ok_or_else(|| refused("its address is refused"))?;
    let connected = shared.world.clients.connect(client.address, ADDRESS_MAX);
    let Connected(counters) = connected
        .as_ref()
        .ok_or_else(|| refused("too many connections of its address"))?;
    counters.is_node(client.name.as_deref());
    let counters = counters.clone();
    let mut connections = shared.connections();
    if connections.open.len() >= CONNECTIONS_MAX {
        return Err(refused("too many connections"));
    }
    let number = connections.next;
    connections.next += 1;
    connections.open.insert(number, stream.try_clone()?);
    drop(connections);
    let place = Place {
        shared: shared.clone(),
        number,
    };
    let thread = std::thread::Builder::new().name("nfs-client".into());
    thread.stack_size(STACK).spawn(move || {
        let (_connected, place) = (connected, place);
        let shared = &place.shared;
        let mut session = Session::new(shared.world.clone(), client, peer.port(), counters);
        let of = connection::Place {
            resolver: &*shared.resolver,
            stops: &shared.stops,
            recent: &shared.recent,
            peer,
        };
        let ended = own_umask().and_then(|()| connection::serve(&of, &stream, &mut session));
        let _ = stream.shutdown(Shutdown::Both);
        if let Err(why) = ended {
            tracing::debug!(%peer, %why, "connection closed");
        }
    })?;
    Ok(())
}
