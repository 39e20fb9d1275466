//! This machine's own addresses.

use super::sys;
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};

/// KERNEL: if_addr.h: of an IPv6 address that is not for others to keep: IFA_F_TEMPORARY (RFC 8981, it is given up after a
/// day), DADFAILED, DEPRECATED, TENTATIVE.
const PASSING: u32 = 0x01 | 0x08 | 0x20 | 0x40;
/// Interfaces of container and virtual machine managers: what is behind them is on this machine.
const INNER: [&str; 12] = [
    "docker", "br-", "virbr", "veth", "lxcbr", "lxdbr", "incusbr", "cni", "flannel", "cali",
    "podman", "vnet",
];

/// One address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub interface: String,
    pub ip: IpAddr,
    pub up: bool,
    pub loopback: bool,
    /// There is no device behind the interface: bridges, VLANs, bonds, containers.
    pub is_virtual: bool,
    /// It is not for others to keep.
    pub passing: bool,
}

impl Own {
    /// Could another machine reach it?
    pub fn is_outer(&self) -> bool {
        self.up && !self.loopback && !self.passing && is_global(self.ip)
    }

    pub fn is_inner(&self) -> bool {
        INNER.iter().any(|i| self.interface.starts_with(i))
    }
}

/// No address that means something on one machine or one cable only.
pub fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            !(v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast())
        }
    }
}

/// All of them; none where the kernel tells none.
pub fn own() -> Vec<Own> {
    let passing = passing();
    let rows = sys::rows().unwrap_or_default();
    let one = |row: sys::Row| Own {
        is_virtual: is_virtual(&row.interface),
        passing: matches!(row.ip, IpAddr::V6(v6) if passing.contains(&v6)),
        interface: row.interface,
        ip: row.ip,
        up: row.up,
        loopback: row.loopback,
    };
    rows.into_iter().map(one).collect()
}

/// Has this machine the address now?
pub fn has(ip: IpAddr) -> bool {
    let ours = |row: &sys::Row| row.ip == ip || (row.loopback && ip.is_loopback());
    // Where the kernel tells nothing, nothing is said to have changed.
    ip.is_unspecified() || sys::rows().map_or(true, |rows| rows.iter().any(ours))
}

/// KERNEL: a link to /sys/devices/virtual where there is no device; no link where /sys is of another network namespace.
fn is_virtual(interface: &str) -> bool {
    let link = fs::read_link(format!("/sys/class/net/{interface}"));
    link.is_ok_and(|to| to.components().any(|c| c.as_os_str() == "virtual"))
}

/// KERNEL: net/if_inet6: address, index, prefix, scope, flags, interface; no such file without IPv6.
fn passing() -> HashSet<Ipv6Addr> {
    let text = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    text.lines().filter_map(passing_row).collect()
}

fn passing_row(line: &str) -> Option<Ipv6Addr> {
    let mut words = line.split_whitespace();
    let ip = u128::from_str_radix(words.next()?, 16).ok()?;
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    (flags & PASSING != 0).then(|| Ipv6Addr::from(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_its_loopback() {
        assert!(own().iter().any(|o| o.loopback && o.ip.is_loopback()));
        assert!(has("127.0.1.1".parse().expect("address")));
        assert!(!has("192.0.2.1".parse().expect("address")));
    }

    #[test]
    fn temporary_addresses_are_known() {
        let check = |line: &str, want: Option<&str>| {
            let want = want.map(|ip| ip.parse().expect("address"));
            assert_eq!(passing_row(line), want, "{line}");
        };
        check(
            "fd000000000000000000000000000001 02 40 00 80     eth0",
            None,
        );
        check(
            "fd000000000000000000000000000002 02 40 00 01     eth0",
            Some("fd00::2"),
        );
        check(
            "fd000000000000000000000000000003 02 40 00 40     eth0",
            Some("fd00::3"),
        );
        check("nonsense", None);
    }
}
