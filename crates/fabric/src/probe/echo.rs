//! Echo requests (RFC 792), many peers at once.

use super::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// One peer's requests: bytes of IP, and how many.
pub(super) struct Ask {
    pub(super) to: Ipv4Addr,
    pub(super) size: u32,
    pub(super) count: u32,
}

/// Between two requests to one peer: a burst would be dropped by small queues.
const GAP: Duration = Duration::from_millis(20);
/// After the last request.
const PATIENCE: Duration = Duration::from_millis(700);
/// IP and ICMP headers without options.
const HEADERS: u32 = 28;

/// How many of each peer's requests were answered. Packets are never fragmented on their way there; answers may be.
pub(super) fn echo(asks: &[Ask]) -> io::Result<Vec<u32>> {
    let socket = sys::icmp()?;
    sys::never_fragment(&socket)?;
    socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    let id = (std::process::id() & 0xffff) as u16;
    let mut answered: BTreeMap<Ipv4Addr, BTreeSet<u16>> = BTreeMap::new();
    let rounds = asks.iter().map(|a| a.count).max().unwrap_or(0);
    let mut buffer = vec![0; 65_536];
    for round in 0..rounds {
        for ask in asks.iter().filter(|a| round < a.count) {
            let message = request(id, round as u16, ask.size.saturating_sub(HEADERS) as usize);
            // EMSGSIZE, no route: it counts as not answered.
            let _ = socket.send_to(&message, SocketAddr::from((ask.to, 0)));
        }
        let until = Instant::now() + if round + 1 == rounds { PATIENCE } else { GAP };
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|l| !l.is_zero())
        {
            socket.set_read_timeout(Some(left))?;
            let Ok((len, SocketAddr::V4(from))) = socket.recv_from(&mut buffer) else {
                continue;
            };
            if let Some(round) = reply(&buffer[..len], id) {
                answered.entry(*from.ip()).or_default().insert(round);
            }
            let all = asks.iter().all(|a| {
                answered
                    .get(&a.to)
                    .is_some_and(|s| s.len() as u32 >= a.count)
            });
            if all {
                break;
            }
        }
    }
    Ok(asks
        .iter()
        .map(|a| answered.get(&a.to).map_or(0, |s| s.len() as u32))
        .collect())
}

/// Type 8, code 0, checksum, identifier, sequence, data.
fn request(id: u16, round: u16, data: usize) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(round.to_be_bytes());
    message.resize(8 + data, 0xa5);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The sequence number of an answer to our request, from a whole IP packet.
fn reply(packet: &[u8], id: u16) -> Option<u16> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let message = packet.get(header..header + 8)?;
    let ours = message[0] == 0 && message[4..6] == id.to_be_bytes();
    ours.then(|| u16::from_be_bytes([message[6], message[7]]))
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes
        .chunks(2)
        .map(|p| u32::from(u16::from_be_bytes([p[0], p.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_other_packets() {
        let mut packet = vec![0x45; 20];
        packet.extend(request(7, 3, 4));
        assert_eq!(reply(&packet, 7), None, "a request is no answer");
        packet[20] = 0;
        assert_eq!(reply(&packet, 7), Some(3));
        assert_eq!(reply(&packet, 8), None);
        assert_eq!(reply(&packet[..24], 7), None);
        assert_eq!(reply(&[], 7), None);
        assert_eq!(
            checksum(&request(7, 3, 5)),
            0,
            "a message with its checksum sums to zero"
        );
    }
}
