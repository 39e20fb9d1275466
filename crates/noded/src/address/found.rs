//! The address at which others reach this node.
//!
//! The source address of the default route; without one the only address of an interface that leads out. Where there are
//! several a person chooses; loopback is never chosen.

use super::interfaces::{Own, has, is_global, own};
use crate::error::Candidate;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    One(IpAddr),
    Several(Vec<Candidate>),
    None,
}

/// What this machine's interfaces and routes say. `v6`: whether the node listens on IPv6, too.
pub fn choose(v6: bool) -> Choice {
    let mut all = own();
    if !v6 {
        all.retain(|o| o.ip.is_ipv4());
    }
    among(&all, route_v4(), route_v6().filter(|_| v6))
}

/// Pure: `v4`, `v6` are the sources of the default routes.
fn among(all: &[Own], v4: Option<IpAddr>, v6: Option<IpAddr>) -> Choice {
    let routed = [v4, v6].into_iter().flatten().find(|ip| is_global(*ip));
    if let Some(ip) = routed {
        return Choice::One(permanent(all, ip));
    }
    let outer: Vec<&Own> = all.iter().filter(|o| o.is_outer()).collect();
    let devices: Vec<&Own> = outer.iter().filter(|o| !o.is_virtual).copied().collect();
    let picked = match devices.is_empty() {
        true => outer.into_iter().filter(|o| !o.is_inner()).collect(),
        false => devices,
    };
    let mut candidates: Vec<Candidate> = Vec::new();
    for own in picked {
        let known = candidates.iter_mut().find(|c| c.interface == own.interface);
        match known {
            // One an interface, IPv4 first: what more nodes speak.
            Some(known) if known.ip.is_ipv6() && own.ip.is_ipv4() => known.ip = own.ip,
            Some(_) => {}
            None => candidates.push(Candidate {
                interface: own.interface.clone(),
                ip: own.ip,
            }),
        }
    }
    match &candidates[..] {
        [] => Choice::None,
        [one] => Choice::One(one.ip),
        _ => Choice::Several(candidates),
    }
}

/// In place of an address that is given up soon one of its interface that is not.
fn permanent(all: &[Own], ip: IpAddr) -> IpAddr {
    let Some(own) = all.iter().find(|o| o.ip == ip && o.passing) else {
        return ip;
    };
    let better =
        |o: &&Own| o.interface == own.interface && o.is_outer() && o.ip.is_ipv6() == ip.is_ipv6();
    all.iter().find(better).map_or(ip, |o| o.ip)
}

/// Connecting a datagram socket chooses our address and sends nothing. 192.0.2.1 is RFC 5737's.
fn route_v4() -> Option<IpAddr> {
    source(
        (Ipv4Addr::UNSPECIFIED, 0).into(),
        (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
    )
}

/// 2001:db8::1 is RFC 3849's.
fn route_v6() -> Option<IpAddr> {
    let there = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    source((Ipv6Addr::UNSPECIFIED, 0).into(), (there, 9).into())
}

fn source(from: SocketAddr, to: SocketAddr) -> Option<IpAddr> {
    let sock = UdpSocket::bind(from).ok()?;
    sock.connect(to).ok()?;
    Some(sock.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}

/// What became of the address that the others were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    Kept,
    /// It is gone, and another was found.
    Moved(IpAddr),
    /// It is gone, and there is none.
    Lost,
}

/// Looks whether this machine still has `told`, which was found and not given.
pub fn follow(advertised: IpAddr, v6: bool) -> Follow {
    if has(advertised) {
        return Follow::Kept;
    }
    match choose(v6) {
        Choice::One(ip) => Follow::Moved(ip),
        // There is no person to ask: the first of the same family.
        Choice::Several(all) => {
            let same_family = all.iter().find(|c| c.ip.is_ipv4() == advertised.is_ipv4());
            same_family
                .or(all.first())
                .map_or(Follow::Lost, |c| Follow::Moved(c.ip))
        }
        Choice::None => Follow::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    /// `eth0=10.0.0.1`, with `!` for a device, `~` for an address that passes, `-` for an interface that is down.
    fn rows(text: &str) -> Vec<Own> {
        let one = |word: &str| {
            let (name, at) = word.split_once('=').expect("=");
            Own {
                interface: name.trim_matches(['!', '~', '-']).into(),
                ip: ip(at),
                up: !name.ends_with('-'),
                loopback: name.starts_with("lo"),
                is_virtual: !name.ends_with('!'),
                passing: name.ends_with('~'),
            }
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn the_address_that_others_reach() {
        let check = |all: &str, v4: Option<&str>, v6: Option<&str>, want: &str| {
            let got = match among(&rows(all), v4.map(ip), v6.map(ip)) {
                Choice::One(ip) => ip.to_string(),
                Choice::None => "none".into(),
                Choice::Several(all) => {
                    let each: Vec<String> = all.iter().map(|c| c.ip.to_string()).collect();
                    each.join(" ")
                }
            };
            assert_eq!(got, want, "{all}");
        };
        let lo = "lo=127.0.0.1 lo=::1";
        check(lo, None, None, "none");
        check("lo=127.0.0.1 eth0!=10.0.0.1", None, None, "10.0.0.1");
        check(
            "eth0!=10.0.0.1 eth1!=10.1.0.1",
            Some("10.1.0.1"),
            None,
            "10.1.0.1",
        );
        check(
            "eth0!=10.0.0.1 eth1!=10.1.0.1",
            None,
            None,
            "10.0.0.1 10.1.0.1",
        );
        check("eth0!=10.0.0.1 docker0=172.17.0.1", None, None, "10.0.0.1");
        // A container's eth0 has no device; neither has a bridge that carries the address.
        check("lo=127.0.0.1 eth0=10.0.0.1", None, None, "10.0.0.1");
        check(
            "br0=10.0.0.1 docker0=172.17.0.1 veth12=10.9.0.1",
            None,
            None,
            "10.0.0.1",
        );
        check("docker0=172.17.0.1", None, None, "none");
        check("eth0-=10.0.0.1", None, None, "none");
        check("eth0!=169.254.3.4 eth0!=fe80::1", None, None, "none");
        // A route by way of loopback says nothing.
        check("eth0!=10.0.0.1", Some("127.0.0.1"), None, "10.0.0.1");
        check("eth0!=fd00::1 eth0!=10.0.0.1", None, None, "10.0.0.1");
        check("eth0!=fe80::1 eth0!=fd00::1", None, None, "fd00::1");
        check(
            "eth0~=fd00::99 eth0!=fd00::1",
            None,
            Some("fd00::99"),
            "fd00::1",
        );
        check("eth0~=fd00::99", None, Some("fd00::99"), "fd00::99");
    }
}
