//! Connections that go directly between hosts, or are about to.

use crate::deputy::HostLink;
use crate::sync::lock;
use armento_wire::sockets::{SOCKET_WINDOW_MAX, SocketNews};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections of one tree: each has a thread, two descriptors, and up to two windows of bytes at each host.
const CONNECTIONS_MAX: usize = 256;
/// A host sends at most four messages about an end; one that sends more is not heard.
const EVENTS_MAX: usize = 16;
/// A connection that a call needed at home is offered again after this, …
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// … doubled each time, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// One that was direct for so long begins with the first pause again.
const LASTED: Duration = Duration::from_secs(20);
/// Sockets whose pauses are remembered.
const PAUSES_MAX: usize = 1024;

/// What hosts say of one connection.
pub type SocketEvents = Receiver<SocketNews>;

pub struct DirectConnection {
    /// Random: no other host of the tree can guess it.
    pub number: u64,
    inodes: [u64; 2],
    links: [Arc<HostLink>; 2],
    events: SyncSender<SocketNews>,
}

struct Pause {
    length: Duration,
    until: Instant,
}

#[derive(Default)]
pub struct DirectSockets {
    all: Mutex<HashMap<u64, Arc<DirectConnection>>>,
    /// By inode of either socket.
    pauses: Mutex<HashMap<u64, Pause>>,
}

fn random() -> Option<u64> {
    let hex = armento_link::random_hex(8);
    // One bit tells the two ends apart.
    u64::from_str_radix(&hex, 16).ok().map(|n| n >> 1)
}

impl DirectSockets {
    /// `None`: one of the sockets is in a connection of this kind already, or there are too many.
    pub fn begin(
        &self,
        inodes: [u64; 2],
        links: [Arc<HostLink>; 2],
    ) -> Option<(Arc<DirectConnection>, SocketEvents)> {
        let number = random()?;
        let (tx, rx) = sync_channel(EVENTS_MAX);
        let mut all = lock(&self.all);
        let known = |c: &Arc<DirectConnection>| c.inodes.iter().any(|i| inodes.contains(i));
        if all.len() >= CONNECTIONS_MAX || all.values().any(known) || all.contains_key(&number) {
            return None;
        }
        let one = Arc::new(DirectConnection {
            number,
            inodes,
            links,
            events: tx,
        });
        all.insert(number, one.clone());
        Some((one, rx))
    }

    pub fn end(&self, c: &DirectConnection) {
        self.forget(c.number);
    }

    pub fn forget(&self, number: u64) {
        lock(&self.all).remove(&number);
    }

    /// A host speaks of an end that is at it; of others it is not heard.
    pub fn tell(&self, link: &Arc<HostLink>, news: SocketNews) {
        let end = news.end();
        let known = lock(&self.all).get(&end.connection()).cloned();
        let its = known.filter(|c| Arc::ptr_eq(&c.links[end.side()], link));
        if let SocketNews::Ended { tail, unread, .. } = &news
            && tail.len().max(unread.len()) > SOCKET_WINDOW_MAX as usize
        {
            return;
        }
        if let Some(c) = its {
            // Full only if the host says more than it is asked.
            let _ = c.events.try_send(news);
        }
    }

    /// Whether a socket is not to be offered yet.
    pub fn waits(&self, inode: u64, now: Instant) -> bool {
        lock(&self.pauses)
            .get(&inode)
            .is_some_and(|p| now < p.until)
    }

    /// A call needed it at home, when it had been direct for so long. Returns when it may be offered again.
    pub fn back_off(&self, inodes: [u64; 2], direct: Duration, now: Instant) -> Instant {
        let mut pauses = lock(&self.pauses);
        if pauses.len() >= PAUSES_MAX {
            pauses.retain(|_, p| p.until + PAUSE_MAX > now);
        }
        let before = inodes
            .iter()
            .filter_map(|i| pauses.get(i))
            .map(|p| p.length);
        let length = match before.max() {
            Some(before) if direct < LASTED => (before * 2).min(PAUSE_MAX),
            _ => PAUSE_FIRST,
        };
        let until = now + length;
        for i in inodes {
            pauses.insert(i, Pause { length, until });
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_at_home_again_and_again_waits_longer() {
        let d = DirectSockets::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let until = d.back_off([1, 2], Duration::ZERO, now);
            waits.push(until.duration_since(now).as_secs());
            assert!(d.waits(1, now) && d.waits(2, now) && !d.waits(3, now));
            now = until;
            assert!(!d.waits(1, now));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        let until = d.back_off([1, 2], LASTED, now);
        assert_eq!(until.duration_since(now), PAUSE_FIRST, "it was worth it");
    }
}
