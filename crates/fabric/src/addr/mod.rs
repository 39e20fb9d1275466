//! Hardware addresses, and addresses by number in a network. Pure. Start at [`Mac`].

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A hardware address of Ethernet (IEEE 802: EUI-48) of one card. Group addresses and zero are no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

/// A text that is no hardware address of a card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no hardware address of a card")]
pub struct BadMac(pub String);

impl Mac {
    /// The six octets, in the order in which they are sent.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for Mac {
    type Err = BadMac;

    /// Reads `00:1b:21:aa:bb:cc`, also with `-` and in capitals; octets may lack their leading zero, as in ethers(5).
    fn from_str(text: &str) -> Result<Mac, BadMac> {
        let bad = || BadMac(text.to_owned());
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part = parts.next().filter(|p| (1..=2).contains(&p.len()));
            *octet = part
                .filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(bad)?;
        }
        let group = octets[0] & 1 == 1;
        match parts.next() {
            None if !group && octets != [0; 6] => Ok(Mac(octets)),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = BadMac;

    fn try_from(text: String) -> Result<Mac, BadMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The address `steps` after `start`, if it is a host's address in `net`.
pub fn nth(net: IpNet, start: IpAddr, steps: u32) -> Option<IpAddr> {
    let found = match start {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits().checked_add(steps)?)),
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits().checked_add(steps.into())?)),
    };
    is_host(net, found).then_some(found)
}

/// Whether a host of `net` may have this address: neither the network's own nor its broadcast address.
pub fn is_host(net: IpNet, addr: IpAddr) -> bool {
    let small = match net {
        IpNet::V4(n) => n.prefix_len() >= 31,
        IpNet::V6(n) => n.prefix_len() >= 127,
    };
    let broadcast = addr.is_ipv4() && addr == net.broadcast();
    net.contains(&addr) && (small || (addr != net.network() && !broadcast))
}

/// A network of this one address.
pub fn single(addr: IpAddr) -> IpNet {
    IpNet::from(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_read_in_every_usual_form() {
        let check = |text: &str, expected: Option<&str>| {
            let mac = text.parse::<Mac>().ok().map(|m| m.to_string());
            assert_eq!(mac.as_deref(), expected, "{text}");
        };
        check("00:1B:21:aa:bb:cc", Some("00:1b:21:aa:bb:cc"));
        check("00-1b-21-aa-bb-cc", Some("00:1b:21:aa:bb:cc"));
        check("0:1b:21:a:b:c", Some("00:1b:21:0a:0b:0c"));
        check("01:00:5e:00:00:01", None);
        check("00:00:00:00:00:00", None);
        check("00:1b:21:aa:bb", None);
        check("00:1b:21:aa:bb:cc:dd", None);
        check("00:1b:21:aa:bb:+c", None);
        check("", None);
    }

    #[test]
    fn addresses_follow_numbers_and_end_with_the_network() {
        let net: IpNet = "192.168.4.0/24".parse().expect("net");
        let check = |start: &str, steps, expected: Option<&str>| {
            let found = nth(net, start.parse().expect("address"), steps);
            assert_eq!(found.map(|a| a.to_string()).as_deref(), expected);
        };
        check("192.168.4.1", 13, Some("192.168.4.14"));
        check("192.168.4.1", 253, Some("192.168.4.254"));
        check("192.168.4.1", 254, None);
        check("192.168.4.0", 0, None);
        check("192.168.3.1", 0, None);
        check("255.255.255.255", 1, None);
    }
}
