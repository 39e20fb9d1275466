//! Frames of our own by which observers find each other: who is at the other end of which link, and what their clocks say.

use super::sys::Frames;
use crate::diagnose::Heard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// IEEE 802: EtherType for local experiments.
const KIND: u16 = 0x88b5;
const MARK: &[u8] = b"armento-fabric/1 ";
/// Between two frames on a link.
const GAP: Duration = Duration::from_millis(250);
/// Senders that are remembered: above, somebody is flooding.
const HEARD_MAX: usize = 10_000;

#[derive(Serialize, Deserialize)]
struct Beacon {
    farm: String,
    node: String,
    link: String,
    /// The sender's clock, microseconds since 1970.
    t_us: i64,
}

/// A link on which to send.
pub(super) struct On {
    pub(super) index: u32,
    pub(super) name: String,
}

/// Sends on all links and listens for `time`; who was heard.
pub(super) fn exchange(
    farm: &str,
    node: &str,
    links: &[On],
    time: Duration,
) -> io::Result<Vec<Heard>> {
    let frames = Frames::open(KIND, Duration::from_millis(50))?;
    let until = Instant::now() + time;
    let mut next = Instant::now();
    let mut heard: BTreeMap<(String, String, String), i64> = BTreeMap::new();
    let mut buffer = [0; 2048];
    while Instant::now() < until {
        if Instant::now() >= next {
            next += GAP;
            for link in links {
                let beacon = Beacon {
                    farm: farm.into(),
                    node: node.into(),
                    link: link.name.clone(),
                    t_us: now_us(),
                };
                let mut bytes = MARK.to_vec();
                bytes.extend(serde_json::to_vec(&beacon).map_err(io::Error::other)?);
                // A link that is down has nobody behind it.
                let _ = frames.send(link.index, &bytes);
            }
        }
        let Some((len, index)) = frames.receive(&mut buffer)? else {
            continue;
        };
        let at = now_us();
        let (Some(link), Some(beacon)) = (
            links.iter().find(|l| l.index == index),
            read(&buffer[..len]),
        ) else {
            continue;
        };
        if beacon.farm != farm || heard.len() >= HEARD_MAX {
            continue;
        }
        let lag = at.saturating_sub(beacon.t_us);
        let least = heard
            .entry((link.name.clone(), beacon.node, beacon.link))
            .or_insert(lag);
        *least = (*least).min(lag);
    }
    let all = heard.into_iter().map(|((link, node, from), lag_us)| Heard {
        link,
        node,
        from,
        lag_us,
    });
    Ok(all.collect())
}

/// A frame of an observer; padding after it is Ethernet's.
fn read(bytes: &[u8]) -> Option<Beacon> {
    let json = bytes.strip_prefix(MARK)?;
    let end = json.iter().rposition(|b| *b == b'}')? + 1;
    let beacon: Beacon = serde_json::from_slice(&json[..end]).ok()?;
    let short = |t: &str| t.len() <= 64;
    (short(&beacon.farm) && short(&beacon.node) && short(&beacon.link)).then_some(beacon)
}

fn now_us() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_others_are_passed_over() {
        let mut frame = MARK.to_vec();
        frame.extend(br#"{"farm":"f","node":"n1","link":"lan0","t_us":5}"#);
        frame.extend([0; 20]);
        assert_eq!(read(&frame).expect("beacon").node, "n1");
        for bad in [
            &b""[..],
            b"armento-fabric/1 ",
            b"armento-fabric/1 {}",
            b"armento-fabric/1 }",
            b"else",
        ] {
            assert!(read(bad).is_none());
        }
    }
}
