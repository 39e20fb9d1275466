//! Connecting to the member at which this node joins: each of its addresses in turn, and what to do when none answers.

use crate::address;
use crate::error::{FarmError, refusal};
use armento_link::{Duplex, LinkError, Token, dial_unknown};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// For one address: a connection takes a round trip, the kernel's second try comes after a second (tcp(7)).
const ONE: Duration = Duration::from_secs(5);
/// For all of them.
const ALL: Duration = Duration::from_secs(20);

/// The connection, the address that answered, and the farm's certificate.
pub fn dial_member(text: &str, token: &Token) -> Result<(Duplex, SocketAddr, Vec<u8>), FarmError> {
    let addrs = address::lookup(text)?;
    let until = Instant::now() + ALL;
    let mut failed = None;
    for addr in addrs {
        let left = until.saturating_duration_since(Instant::now()).min(ONE);
        if left.is_zero() {
            break;
        }
        match dial_unknown(&addr.to_string(), token.ca_sha256, left) {
            Ok((duplex, _, ca)) => return Ok((duplex, addr, ca)),
            Err(e) => {
                let e = explain(text, addr, e);
                // An address that answers tells more than one that does not.
                if !matches!(
                    failed,
                    Some(FarmError::Foreign { .. } | FarmError::Refused(_))
                ) {
                    failed = Some(e);
                }
            }
        }
    }
    Err(failed.unwrap_or_else(|| FarmError::Unreachable {
        addr: text.to_owned(),
        cause: "no answer in time".into(),
        hint: NO_ANSWER.into(),
    }))
}

const NO_ANSWER: &str = "is the address right, and does a firewall let TCP and UDP of that port through? `armento nodes` there shows the address";

/// As it was written, with the address that it means where that is another.
fn named(text: &str, addr: SocketAddr) -> String {
    let shown = addr.to_string();
    match text == shown || format!("{text}:{}", addr.port()) == shown {
        true => shown,
        false => format!("{text} ({addr})"),
    }
}

fn explain(text: &str, addr: SocketAddr, e: LinkError) -> FarmError {
    let named = named(text, addr);
    match e {
        LinkError::Refused(why) => FarmError::Foreign { addr: named, why },
        LinkError::Clock(why) => FarmError::Refused(refusal(
            "clocks-apart",
            format!("{named}: {why}; the secret was not sent, nothing was changed"),
            "set the clock that is wrong (`date` shows it; chrony keeps it right: apt-get install chrony), then join again",
        )),
        LinkError::Keys(_) | LinkError::Closed => FarmError::Keys(e),
        LinkError::Io(e) => FarmError::Unreachable {
            addr: named,
            hint: remedy(addr, &e),
            cause: cause(&e),
        },
    }
}

/// Without the numbers of the system.
pub fn cause(e: &io::Error) -> String {
    use io::ErrorKind as K;
    match e.kind() {
        K::ConnectionRefused => "connection refused".into(),
        K::TimedOut | K::WouldBlock => "no answer in time".into(),
        K::NetworkUnreachable => "this machine has no route to it".into(),
        K::HostUnreachable => "no machine has that address, or a firewall refuses it".into(),
        K::ConnectionReset | K::UnexpectedEof | K::BrokenPipe => "it closed the connection".into(),
        _ => e.to_string(),
    }
}

fn remedy(addr: SocketAddr, e: &io::Error) -> String {
    use io::ErrorKind as K;
    if addr.ip().is_loopback() {
        return format!(
            "{} is this machine itself: give the member's own address (`armento nodes` there shows it)",
            addr.ip()
        );
    }
    match e.kind() {
        K::ConnectionRefused => format!(
            "no daemon listens there: start `armento node` on it, or give its port if that is not {}",
            addr.port()
        ),
        K::NetworkUnreachable => {
            "give this machine an address and a route in that network (`ip address`, `ip route`)"
                .into()
        }
        _ => NO_ANSWER.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_address_and_the_remedy() {
        let check = |text: &str, addr: &str, want: &str| {
            assert_eq!(named(text, addr.parse().expect("address")), want);
        };
        check("10.0.0.1:7117", "10.0.0.1:7117", "10.0.0.1:7117");
        check("10.0.0.1", "10.0.0.1:7117", "10.0.0.1:7117");
        check("n1", "10.0.0.1:7117", "n1 (10.0.0.1:7117)");
        let remedy =
            |addr: &str, kind: io::ErrorKind| remedy(addr.parse().expect("address"), &kind.into());
        assert!(
            remedy("127.0.0.1:7117", io::ErrorKind::ConnectionRefused)
                .contains("this machine itself")
        );
        assert!(remedy("10.0.0.1:7117", io::ErrorKind::ConnectionRefused).contains("armento node"));
        assert!(remedy("10.0.0.1:7117", io::ErrorKind::TimedOut).contains("firewall"));
    }
}
