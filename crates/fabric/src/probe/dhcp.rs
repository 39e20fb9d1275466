//! Which DHCP servers answer on a link: a DISCOVER (RFC 2131), and the server identifiers of the offers (option 54).
//!
//! By hand, some forty lines: of the crates for DHCP the one that is kept up (dhcproto) brings thirty others.

use super::sys;
use crate::addr::Mac;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// Servers try an address before they offer it: dnsmasq for three seconds (its source: config.h, PING_WAIT), ISC's for one.
const PATIENCE: Duration = Duration::from_secs(5);
/// RFC 2131: magic cookie.
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Servers that offer an address there.
pub(super) fn servers(link: &str, mac: Mac) -> io::Result<Vec<IpAddr>> {
    let socket = sys::udp_shared(68)?;
    sys::bind_to_link(&socket, link)?;
    socket.set_broadcast(true)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let id = std::process::id().to_be_bytes();
    socket.send_to(&discover(id, mac), (Ipv4Addr::BROADCAST, 67))?;
    let mut found = Vec::new();
    let until = Instant::now() + PATIENCE;
    let mut buffer = [0; 1500];
    while Instant::now() < until {
        let Ok((len, _)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if let Some(server) = offer(&buffer[..len], id).map(IpAddr::V4)
            && !found.contains(&server)
        {
            found.push(server);
        }
    }
    Ok(found)
}

fn discover(id: [u8; 4], mac: Mac) -> Vec<u8> {
    // BOOTREQUEST, Ethernet, address length, hops; then the flag that asks for answers to all.
    let mut message = vec![1, 1, 6, 0];
    message.extend(id);
    message.extend([0, 0, 0x80, 0]);
    message.resize(28, 0);
    message.extend(mac.octets());
    message.resize(236, 0);
    message.extend(COOKIE);
    // Message type 1, end.
    message.extend([53, 1, 1, 255]);
    message.resize(300, 0);
    message
}

/// The server's identifier, if this is an answer to our message.
fn offer(message: &[u8], id: [u8; 4]) -> Option<Ipv4Addr> {
    let ours =
        message.first() == Some(&2) && message.get(4..8)? == id && message.get(236..240)? == COOKIE;
    let mut rest = message.get(240..).filter(|_| ours)?;
    loop {
        match rest {
            [0, more @ ..] => rest = more,
            [54, 4, a, b, c, d, ..] => return Some(Ipv4Addr::new(*a, *b, *c, *d)),
            [255, ..] | [] | [_] => return None,
            [_, len, more @ ..] => rest = more.get(usize::from(*len)..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_tell_their_server() {
        let id = [1, 2, 3, 4];
        let mut message = discover(id, "02:00:00:00:00:01".parse().expect("mac"));
        assert_eq!(offer(&message, id), None, "a request is no offer");
        message[0] = 2;
        message.truncate(240);
        message.extend([53, 1, 2, 0, 54, 4, 10, 0, 0, 7, 255]);
        assert_eq!(offer(&message, id), Some(Ipv4Addr::new(10, 0, 0, 7)));
        assert_eq!(offer(&message, [0; 4]), None);
        for end in 0..message.len() {
            let _ = offer(&message[..end], id);
        }
    }
}
