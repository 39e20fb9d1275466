//! Which calls of a connection wait for their replies, by counting the records that pass. No socket, no clock.

use std::time::{Duration, Instant};

/// RFC 5531, section 11: a fragment has its length in 4 bytes, most significant first; the top bit marks a record's last one.
const HEAD: usize = 4;
const LAST: u32 = 1 << 31;

/// Counts the records of one direction, in whatever pieces they come.
#[derive(Debug, Default)]
pub struct Records {
    head: u32,
    /// Bytes of the head that are here.
    have: usize,
    /// Bytes of the fragment that are to come.
    left: u32,
    /// The record has begun.
    inside: bool,
}

/// Records of which the first or the last byte was in a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub begun: u64,
    pub ended: u64,
}

impl Records {
    /// The next piece.
    pub fn take(&mut self, mut bytes: &[u8]) -> Passed {
        let mut passed = Passed::default();
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let n = bytes.len().min(self.left as usize);
                self.left -= n as u32;
                bytes = &bytes[n..];
            } else {
                if !self.inside {
                    (self.inside, self.have) = (true, 0);
                    passed.begun += 1;
                }
                self.head = (self.head << 8) | u32::from(*first);
                self.have += 1;
                bytes = rest;
                if self.have < HEAD {
                    continue;
                }
                self.left = self.head & !LAST;
            }
            if self.left == 0 {
                self.have = 0;
                if self.head & LAST != 0 {
                    self.inside = false;
                    passed.ended += 1;
                }
            }
        }
        passed
    }
}

/// Calls without a reply, and since when the server has been silent about them.
#[derive(Debug, Default)]
pub struct Waiting {
    calls: Records,
    replies: Records,
    open: u64,
    since: Option<Instant>,
}

impl Waiting {
    /// These bytes are about to go to the server.
    pub fn asked(&mut self, bytes: &[u8], now: Instant) {
        let begun = self.calls.take(bytes).begun;
        if begun > 0 && self.open == 0 {
            self.since = Some(now);
        }
        self.open += begun;
    }

    /// These bytes came from the server.
    pub fn answered(&mut self, bytes: &[u8], now: Instant) {
        let ended = self.replies.take(bytes).ended;
        self.open = self.open.saturating_sub(ended);
        self.since = (self.open > 0).then_some(now);
    }

    /// How long the server may still be silent; `None`: nothing waits for it.
    pub fn left(&self, silent: Duration, now: Instant) -> Option<Duration> {
        let since = self.since?;
        Some(silent.saturating_sub(now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fragments: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, len) in fragments.iter().enumerate() {
            let last = if i + 1 == fragments.len() { LAST } else { 0 };
            let head = u32::try_from(*len).expect("length") | last;
            bytes.extend(head.to_be_bytes());
            // Its bytes look like heads.
            bytes.extend(vec![0x80; *len]);
        }
        bytes
    }

    #[test]
    fn records_are_counted_in_any_pieces() {
        let all = [record(&[5]), record(&[0]), record(&[3, 0, 9]), record(&[1])].concat();
        for size in 1..=all.len() {
            let mut records = Records::default();
            let (mut begun, mut ended) = (0, 0);
            for piece in all.chunks(size) {
                let passed = records.take(piece);
                begun += passed.begun;
                ended += passed.ended;
                assert!(begun >= ended && begun - ended <= 1, "{size}");
            }
            assert_eq!((begun, ended), (4, 4), "{size}");
        }
        let mut records = Records::default();
        let half = &record(&[5])[..6];
        assert_eq!(records.take(half), Passed { begun: 1, ended: 0 });
    }

    #[test]
    fn silence_begins_with_the_first_call_without_a_reply() {
        const SILENT: Duration = Duration::from_secs(7);
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let left = |w: &Waiting, s: u64| w.left(SILENT, at(s)).map(|d| d.as_secs());
        let mut waiting = Waiting::default();
        assert_eq!(left(&waiting, 100), None, "nothing was asked");
        // Later calls do not give it more time.
        waiting.asked(&record(&[8]), at(10));
        waiting.asked(&record(&[8]), at(12));
        assert_eq!(left(&waiting, 13), Some(4));
        assert_eq!(left(&waiting, 18), Some(0));
        // It has answered one of two: it is there, and owes the other.
        waiting.answered(&record(&[4]), at(14));
        assert_eq!(left(&waiting, 15), Some(6));
        waiting.answered(&record(&[4]), at(16));
        assert_eq!(left(&waiting, 90), None);
        // Half a call, of which the rest does not fit, waits as well.
        waiting.asked(&record(&[8])[..6], at(100));
        assert_eq!(left(&waiting, 107), Some(0));
    }
}
