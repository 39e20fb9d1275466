//! What each client has done: for the status of nodes that start. Start at [`Clients`].
//!
//! This room knows addresses and numbers only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Addresses remembered; of those without a connection the ones that came first are forgotten.
const CLIENTS_MAX: usize = 4096;
/// Mounts remembered for each.
const MOUNTS_MAX: usize = 16;

/// What one address has done since the server began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStats {
    pub address: IpAddr,
    /// Of the inventory; none for a stranger.
    pub node: Option<String>,
    /// Open now.
    pub connections: u32,
    pub calls: u64,
    /// Content of files sent and received.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// As the standard names it, for example `LOOKUP`.
    pub last_procedure: &'static str,
    /// Of the last call.
    pub last_at: Option<SystemTime>,
    /// Exports it mounted and did not unmount, as far as it said so.
    pub mounts: Vec<String>,
}

/// The counters of one address.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU32,
    calls: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    slow: Mutex<Slow>,
}

#[derive(Debug, Default)]
struct Slow {
    order: u64,
    node: Option<String>,
    last_procedure: &'static str,
    last_at: Option<SystemTime>,
    mounts: Vec<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    /// One call. `procedure` is as the standard names it.
    pub fn called(&self, procedure: &'static str, read: u64, written: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(read, Ordering::Relaxed);
        self.bytes_written.fetch_add(written, Ordering::Relaxed);
        let mut slow = lock(&self.slow);
        slow.last_procedure = procedure;
        slow.last_at = Some(SystemTime::now());
    }

    pub fn is_node(&self, node: Option<&str>) {
        lock(&self.slow).node = node.map(str::to_owned);
    }

    pub fn mounted(&self, path: &str) {
        let mut slow = lock(&self.slow);
        if !slow.mounts.iter().any(|m| m == path) && slow.mounts.len() < MOUNTS_MAX {
            slow.mounts.push(path.to_owned());
        }
    }

    /// None: all of them.
    pub fn unmounted(&self, path: Option<&str>) {
        lock(&self.slow)
            .mounts
            .retain(|m| path.is_some_and(|p| p != m));
    }

    fn stats(&self, address: IpAddr) -> ClientStats {
        let slow = lock(&self.slow);
        ClientStats {
            address,
            node: slow.node.clone(),
            connections: self.connections.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            last_procedure: slow.last_procedure,
            last_at: slow.last_at,
            mounts: slow.mounts.clone(),
        }
    }
}

/// One connection of a client; counted until it is dropped.
#[derive(Debug)]
pub struct Connected(pub Arc<Counters>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    all: Mutex<BTreeMap<IpAddr, Arc<Counters>>>,
    order: AtomicU64,
}

impl Clients {
    /// Another connection of this address, unless it has `max` already.
    pub fn connect(&self, address: IpAddr, max: u32) -> Option<Connected> {
        let mut all = lock(&self.all);
        if !all.contains_key(&address) && all.len() >= CLIENTS_MAX {
            let idle = all
                .iter()
                .filter(|(_, c)| c.connections.load(Ordering::Relaxed) == 0);
            let first = idle
                .min_by_key(|(_, c)| lock(&c.slow).order)
                .map(|(a, _)| *a)?;
            all.remove(&first);
        }
        let counters = all.entry(address).or_default().clone();
        if counters.connections.load(Ordering::Relaxed) >= max {
            return None;
        }
        counters.connections.fetch_add(1, Ordering::Relaxed);
        lock(&counters.slow).order = self.order.fetch_add(1, Ordering::Relaxed);
        Some(Connected(counters))
    }

    pub fn stats(&self) -> Vec<ClientStats> {
        lock(&self.all).iter().map(|(a, c)| c.stats(*a)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_address_are_bounded_and_counted() {
        let clients = Clients::default();
        let address = IpAddr::from([192, 0, 2, 1]);
        let first = clients.connect(address, 2).expect("first");
        let second = clients.connect(address, 2).expect("second");
        assert!(clients.connect(address, 2).is_none());
        drop(first);
        second.0.called("READ", 5, 0);
        second.0.mounted("/root");
        assert!(clients.connect(address, 2).is_some());
        let stats = clients.stats();
        assert_eq!(
            (stats[0].calls, stats[0].bytes_read, stats[0].connections),
            (1, 5, 1)
        );
        assert_eq!(stats[0].mounts, ["/root"]);
        second.0.unmounted(None);
        assert!(clients.stats()[0].mounts.is_empty());
    }

    #[test]
    fn addresses_without_connections_are_forgotten_first() {
        let clients = Clients::default();
        let address = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        let kept = clients.connect(address(0), 1).expect("kept");
        for n in 1..CLIENTS_MAX + 10 {
            drop(clients.connect(address(n), 1).expect("connected"));
        }
        let stats = clients.stats();
        assert_eq!(stats.len(), CLIENTS_MAX);
        assert!(stats.iter().any(|s| s.address == address(0)));
        assert!(stats.iter().all(|s| s.address != address(1)));
        drop(kept);
    }
}
