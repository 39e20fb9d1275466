//! Replies to calls that must not be done twice. A client that lost its connection sends its calls once more, with the same
//! number from the same port; without this a file that it removed would be missing the second time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_128;

/// Replies that are kept; each is some 300 bytes.
const REPLIES_MAX: usize = 1024;
/// Then a client has other calls of this number. KERNEL: nfs(5): one over TCP is sent again after 60 s, and twice.
const KEPT: Duration = Duration::from_secs(180);

/// The replies of all clients, the oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    replies: Mutex<VecDeque<(u128, Instant, Vec<u8>)>>,
}

/// Of a call: who sent it, and all its bytes.
pub fn key(peer: SocketAddr, record: &[u8]) -> u128 {
    xxh3_128(&[peer.to_string().as_bytes(), record].concat())
}

impl Recent {
    fn replies(&self) -> MutexGuard<'_, VecDeque<(u128, Instant, Vec<u8>)>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply that this call got before.
    pub fn get(&self, key: u128) -> Option<Vec<u8>> {
        let replies = self.replies();
        let same = replies
            .iter()
            .find(|(k, at, _)| *k == key && at.elapsed() < KEPT);
        same.map(|(_, _, reply)| reply.clone())
    }

    pub fn keep(&self, key: u128, reply: Vec<u8>) {
        let mut replies = self.replies();
        if replies.len() >= REPLIES_MAX {
            replies.pop_front();
        }
        replies.push_back((key, Instant::now(), reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_those_of_the_same_caller_and_bounded() {
        let recent = Recent::default();
        let peer = |port| SocketAddr::from(([192, 0, 2, 1], port));
        recent.keep(key(peer(900), b"call"), b"reply".to_vec());
        assert_eq!(recent.get(key(peer(900), b"call")), Some(b"reply".to_vec()));
        assert_eq!(recent.get(key(peer(901), b"call")), None);
        assert_eq!(recent.get(key(peer(900), b"other")), None);
        for n in 0..REPLIES_MAX {
            recent.keep(n as u128, Vec::new());
        }
        assert_eq!(recent.get(key(peer(900), b"call")), None);
        assert_eq!(recent.replies().len(), REPLIES_MAX);
    }
}
