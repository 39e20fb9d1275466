//! Datagrams between members: a kind, a payload, and proof that the sender knows the farm's secret.
//!
//! ```text
//! version 1 | kind 1 | payload | HMAC-SHA256 of all before, first 16 bytes
//! ```
//! A later version may send other kinds, which are dropped, and more behind a payload, which is not read (postcard takes
//! what it knows from the front); it changes nothing of what is there.
//! A repeated datagram does no harm: SWIM and the load vector take the newest and drop the rest.

use ring::hmac;

const VERSION: u8 = 1;
const TAG: usize = 16;
const HEAD: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// foca's.
    Swim,
    /// The load vector's.
    Vector,
    /// Of a later version: sent in tests, known to no daemon.
    ToCome,
}

/// The farm's secret, ready for use.
pub struct Seal(hmac::Key);

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Swim => 1,
            Kind::Vector => 2,
            Kind::ToCome => 3,
        }
    }
}

impl Seal {
    pub fn new(secret: &str) -> Seal {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    pub fn close(&self, kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + payload.len() + TAG);
        out.extend_from_slice(&[VERSION, kind.byte()]);
        out.extend_from_slice(payload);
        let tag = hmac::sign(&self.0, &out);
        out.extend_from_slice(&tag.as_ref()[..TAG]);
        out
    }

    /// `None` for everything that no member of this farm sent.
    pub fn open<'a>(&self, datagram: &'a [u8]) -> Option<(Kind, &'a [u8])> {
        let (said, tag) = datagram.split_at_checked(datagram.len().checked_sub(TAG)?)?;
        let [VERSION, kind, payload @ ..] = said else {
            return None;
        };
        let kind = [Kind::Swim, Kind::Vector]
            .into_iter()
            .find(|k| k.byte() == *kind)?;
        let right = hmac::sign(&self.0, said);
        // Constant time: every byte is looked at.
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y));
        (differ(&right.as_ref()[..TAG], tag) == 0).then_some((kind, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_of_members_open() {
        let (ours, theirs) = (Seal::new("a"), Seal::new("b"));
        let sent = ours.close(Kind::Vector, b"load");
        assert_eq!(ours.open(&sent), Some((Kind::Vector, &b"load"[..])));
        assert_eq!(theirs.open(&sent), None);
        for i in 0..sent.len() {
            let mut bent = sent.clone();
            bent[i] ^= 1;
            assert_eq!(ours.open(&bent), None, "byte {i}");
            assert_eq!(ours.open(&sent[..i]), None, "cut at {i}");
        }
        assert_eq!(ours.open(&ours.close(Kind::ToCome, b"")), None);
        assert_eq!(
            ours.open(&ours.close(Kind::Swim, b"")),
            Some((Kind::Swim, &b""[..]))
        );
    }
}
