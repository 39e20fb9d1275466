//! Busy connections of bodies as they were looked at last: which are direct, and why others go over home.

use crate::sync::lock;
use armento_model::Pid;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Connections that are remembered: of more, those looked at longest ago are forgotten.
const REMEMBERED_MAX: usize = 256;
/// A busy connection is looked at again within this time (`direct_sockets.rs`, its longest pause); another one is not busy any more.
const BUSY: Duration = Duration::from_secs(70);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEnd {
    pub pid: Pid,
    pub fd: i32,
    /// Of the socket: the descriptor may lead to another one later.
    pub ino: u64,
}

/// What was found out about one end.
#[derive(Clone, Copy, Debug)]
pub struct SocketNote {
    pub end: SocketEnd,
    /// The process at the other end, if it is known.
    pub peer: Option<Pid>,
    /// Why it goes over home; `None`: it is direct.
    pub over_home: Option<&'static str>,
    /// Since when.
    pub since: Instant,
    looked: Instant,
}

/// Notes of one tree.
#[derive(Default)]
pub struct BusySockets(Mutex<HashMap<(Pid, i32), SocketNote>>);

impl BusySockets {
    /// Both ends of a connection go directly from now on.
    pub fn direct(&self, ends: [SocketEnd; 2], now: Instant) {
        let [a, b] = ends;
        for (end, other) in [(a, b), (b, a)] {
            self.put(end, Some(other.pid), None, now);
        }
    }

    /// Both ends go over home again, for this reason.
    pub fn home_again(&self, ends: [SocketEnd; 2], why: &'static str, now: Instant) {
        let [a, b] = ends;
        for (end, other) in [(a, b), (b, a)] {
            self.put(end, Some(other.pid), Some(why), now);
        }
    }

    /// A busy connection cannot be direct now. One that is direct stays so: it was looked at from its other end.
    pub fn over_home(&self, end: SocketEnd, why: &'static str, now: Instant) {
        let is_direct = |n: &SocketNote| n.end == end && n.over_home.is_none();
        if !lock(&self.0).get(&(end.pid, end.fd)).is_some_and(is_direct) {
            self.put(end, None, Some(why), now);
        }
    }

    /// It was looked at, and what is known of it holds.
    pub fn looked(&self, end: SocketEnd, now: Instant) {
        if let Some(note) = lock(&self.0).get_mut(&(end.pid, end.fd)) {
            note.looked = now;
        }
    }

    fn put(
        &self,
        end: SocketEnd,
        peer: Option<Pid>,
        over_home: Option<&'static str>,
        now: Instant,
    ) {
        let mut all = lock(&self.0);
        let key = (end.pid, end.fd);
        let same = all
            .get(&key)
            .filter(|n| n.end == end && n.over_home == over_home);
        let since = same.map_or(now, |n| n.since);
        // Which process has the other end may be known from before.
        let peer = peer.or_else(|| all.get(&key).filter(|n| n.end == end)?.peer);
        if all.len() >= REMEMBERED_MAX && !all.contains_key(&key) {
            let oldest = all.iter().filter(|(_, n)| n.over_home.is_some());
            let oldest = oldest.min_by_key(|(_, n)| n.looked).map(|(key, _)| *key);
            let Some(oldest) = oldest else { return };
            all.remove(&oldest);
        }
        let note = SocketNote {
            end,
            peer,
            over_home,
            since,
            looked: now,
        };
        all.insert(key, note);
    }

    /// Notes of a process, the direct ones first, then by descriptor. Those of connections that are not busy any more are forgotten.
    pub fn of(&self, pid: Pid, now: Instant) -> Vec<SocketNote> {
        let mut all = lock(&self.0);
        all.retain(|_, n| n.over_home.is_none() || now.duration_since(n.looked) < BUSY);
        let mut its: Vec<SocketNote> = all.values().filter(|n| n.end.pid == pid).copied().collect();
        its.sort_by_key(|n| (n.over_home.is_some(), n.end.fd));
        its
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(pid: Pid, fd: i32) -> SocketEnd {
        let ino = u64::from(fd.unsigned_abs()) + 100;
        SocketEnd { pid, fd, ino }
    }

    fn said(
        s: &BusySockets,
        pid: Pid,
        now: Instant,
    ) -> Vec<(i32, Option<Pid>, Option<&'static str>)> {
        let all = s.of(pid, now).into_iter();
        all.map(|n| (n.end.fd, n.peer, n.over_home)).collect()
    }

    #[test]
    fn direct_connections_come_first_and_keep_their_reason_afterwards() {
        let s = BusySockets::default();
        let now = Instant::now();
        s.over_home(end(7, 3), "an epoll has it", now);
        s.direct([end(7, 5), end(8, 4)], now);
        let want = [(5, Some(8), None), (3, None, Some("an epoll has it"))];
        assert_eq!(said(&s, 7, now), want);
        // It is looked at from its other end while it is direct.
        s.over_home(end(8, 4), "it is direct already", now);
        assert_eq!(said(&s, 8, now), [(4, Some(7), None)]);
        s.home_again([end(7, 5), end(8, 4)], "a call needed it at home", now);
        let want = Some("a call needed it at home");
        assert_eq!(said(&s, 8, now), [(4, Some(7), want)]);
        s.over_home(end(8, 4), "an epoll has it", now + BUSY / 2);
        assert_eq!(said(&s, 8, now), [(4, Some(7), Some("an epoll has it"))]);
        // What is not busy is forgotten; what is direct is not.
        s.direct([end(7, 5), end(8, 4)], now);
        assert_eq!(said(&s, 7, now + 2 * BUSY), [(5, Some(8), None)]);
    }

    #[test]
    fn memory_is_bounded() {
        let s = BusySockets::default();
        let begin = Instant::now();
        for fd in 0..2 * REMEMBERED_MAX as i32 {
            s.over_home(end(7, fd), "why", begin + Duration::from_millis(fd as u64));
        }
        let left = s.of(7, begin);
        assert_eq!(left.len(), REMEMBERED_MAX);
        assert!(left.iter().all(|n| n.end.fd >= REMEMBERED_MAX as i32));
    }
}
