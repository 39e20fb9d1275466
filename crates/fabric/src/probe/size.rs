//! How large a packet arrives, one way: datagrams that may not be fragmented, to a port that nobody has.
//!
//! The peer's kernel says in a small packet that nobody is there (port unreachable, RFC 792): the large one has arrived,
//! and the way back plays no part. KERNEL: icmp(7), icmp_ratelimit: some six such answers at once, then one a second.

use super::sys;
use crate::diagnose::MtuProbe;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// The discard service (RFC 863), which nobody offers any more.
const PORT: u16 = 9;
const TRIES: u32 = 2;
const PATIENCE: Duration = Duration::from_millis(400);
/// After an answer: the peer's kernel gives out no more than one a second for long.
const GAP: Duration = Duration::from_millis(1050);
/// IP and UDP headers.
const HEADERS: u32 = 28;
/// MTUs that networks have: IPv6's least, DSL, Ethernet, cards of the papers (D-Link DGE-528T), jumbo frames.
const USUAL: [u32; 7] = [1280, 1400, 1500, 4000, 7200, 9000, 9200];

enum Fate {
    Arrived,
    /// The own link refuses it.
    Refused,
    Silent,
}

/// The largest of the usual packets up to `wanted` bytes that arrives; `None` if not even a small one is answered (a
/// firewall, or nobody there).
pub(super) fn probe(to: Ipv4Addr, wanted: u32) -> io::Result<Option<MtuProbe>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    sys::never_fragment(&socket)?;
    socket.connect((to, PORT))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    if let Fate::Arrived = send(&socket, wanted)? {
        return Ok(Some(MtuProbe {
            wanted,
            passed: wanted,
            local: false,
        }));
    }
    // Was it the size?
    std::thread::sleep(GAP);
    if !matches!(send(&socket, HEADERS + 8)?, Fate::Arrived) {
        return Ok(None);
    }
    let mut found = MtuProbe {
        wanted,
        passed: HEADERS + 8,
        local: false,
    };
    for size in USUAL.into_iter().filter(|s| *s < wanted).chain([wanted]) {
        std::thread::sleep(GAP);
        match send(&socket, size)? {
            Fate::Arrived => found.passed = size,
            Fate::Refused => {
                found.local = true;
                break;
            }
            Fate::Silent => break,
        }
    }
    Ok(Some(found))
}

fn send(socket: &UdpSocket, size: u32) -> io::Result<Fate> {
    let data = vec![0xa5; size.saturating_sub(HEADERS) as usize];
    for _ in 0..TRIES {
        match socket.send(&data) {
            // The answer to an earlier datagram is reported at the next call.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(Fate::Arrived),
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(Fate::Refused),
            Err(e) if unreachable(&e) => return Ok(Fate::Silent),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        match socket.recv(&mut [0; 16]) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(Fate::Arrived),
            // Somebody has the port: it has arrived all the same.
            Ok(_) => return Ok(Fate::Arrived),
            // A router on the way says that it is too large, or nobody says anything.
            Err(_) => {}
        }
    }
    Ok(Fate::Silent)
}

fn unreachable(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::PermissionDenied
    )
}
