//! Who answers for an address (RFC 826).

use super::sys::Frames;
use crate::addr::Mac;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const ARP: u16 = 0x0806;
const PATIENCE: Duration = Duration::from_millis(500);

/// A question.
pub(super) struct Ask {
    /// The link's index.
    pub(super) index: u32,
    pub(super) own: Mac,
    /// The own address; 0.0.0.0 to ask for it (RFC 5227).
    pub(super) from: Ipv4Addr,
    pub(super) address: Ipv4Addr,
}

/// The cards that answer to each question, in the order of the questions.
pub(super) fn ask(asks: &[Ask]) -> io::Result<Vec<Vec<Mac>>> {
    let frames = Frames::open(ARP, Duration::from_millis(50))?;
    for ask in asks {
        // A link that is down has nobody behind it.
        let _ = frames.send(ask.index, &request(ask));
    }
    let mut found: BTreeMap<(u32, Ipv4Addr), Vec<Mac>> = BTreeMap::new();
    let until = Instant::now() + PATIENCE;
    let mut buffer = [0; 128];
    while Instant::now() < until {
        let Some((len, index)) = frames.receive(&mut buffer)? else {
            continue;
        };
        if let Some((address, mac)) = answer(&buffer[..len]) {
            let macs = found.entry((index, address)).or_default();
            if !macs.contains(&mac) {
                macs.push(mac);
            }
        }
    }
    Ok(asks
        .iter()
        .map(|a| {
            found
                .get(&(a.index, a.address))
                .cloned()
                .unwrap_or_default()
        })
        .collect())
}

/// Ethernet and IPv4, their lengths, operation 1; sender; target.
fn request(ask: &Ask) -> Vec<u8> {
    let mut frame = vec![0, 1, 8, 0, 6, 4, 0, 1];
    frame.extend(ask.own.octets());
    frame.extend(ask.from.octets());
    frame.extend([0; 6]);
    frame.extend(ask.address.octets());
    frame
}

/// Who answers for which address.
fn answer(frame: &[u8]) -> Option<(Ipv4Addr, Mac)> {
    let frame = frame.get(..28)?;
    if frame[..8] != [0, 1, 8, 0, 6, 4, 0, 2] {
        return None;
    }
    let mac = frame[8..14]
        .iter()
        .map(|o| format!("{o:02x}"))
        .collect::<Vec<_>>()
        .join(":");
    let address = Ipv4Addr::new(frame[14], frame[15], frame[16], frame[17]);
    Some((address, mac.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_count() {
        let own: Mac = "02:00:00:00:00:01".parse().expect("mac");
        let from = Ipv4Addr::new(10, 0, 0, 1);
        let mut frame = request(&Ask {
            index: 1,
            own,
            from,
            address: Ipv4Addr::new(10, 0, 0, 2),
        });
        assert_eq!(answer(&frame), None, "a request is no answer");
        frame[7] = 2;
        assert_eq!(answer(&frame), Some((from, own)));
        assert_eq!(answer(&frame[..27]), None);
        assert_eq!(answer(&[]), None);
    }
}
