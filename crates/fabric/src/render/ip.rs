//! Commands for `ip -batch`: what every other output must have the effect of.

use crate::plan::{Device, NodePlan, Planned, Route};
use ipnet::IpNet;
use std::fmt::Write as _;

/// All commands for a node whose cards have their names and nothing else. Order: bonds, members, VLANs, addresses, up,
/// routes.
pub fn batch(plan: &NodePlan) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "{l}");
    for link in &plan.links {
        if let Some(add) = add_link(link) {
            line(format_args!("{add}"));
        }
        if let Device::Bond { of, .. } = &link.device {
            for member in of {
                // KERNEL: bonding.rst: a card that is up cannot become a member.
                line(format_args!("link set dev {member} down"));
                line(format_args!("link set dev {member} master {}", link.name)); // KERNEL: ip's word
            }
        }
    }
    for link in &plan.links {
        line(format_args!("link set dev {} mtu {}", link.name, link.mtu));
    }
    for link in &plan.links {
        for address in &link.addresses {
            line(format_args!("{}", add_address(address, &link.name)));
        }
        line(format_args!("link set dev {} up", link.name));
    }
    for route in &plan.routes {
        line(format_args!("route replace {}", route_words(route)));
    }
    text
}

/// The command that gives a link an address, with the broadcast address that networkd and ifupdown set, too.
pub fn add_address(address: &IpNet, link: &str) -> String {
    let broadcast = match address {
        IpNet::V4(a) if a.prefix_len() <= 30 => " broadcast +",
        _ => "",
    };
    format!("address replace {address}{broadcast} dev {link}")
}

/// The command that makes a bond or a VLAN; none for a card.
pub fn add_link(link: &Planned) -> Option<String> {
    let name = &link.name;
    match &link.device {
        Device::Nic { .. } => None,
        Device::Bond {
            mac,
            mode,
            miimon_ms,
            lacp_fast,
            hash,
            ..
        } => {
            let address = mac.map_or(String::new(), |mac| format!(" address {mac}"));
            let mut words =
                format!("link add name {name}{address} type bond mode {mode} miimon {miimon_ms}");
            if has_hash(mode) {
                let _ = write!(words, " xmit_hash_policy {hash}");
            }
            if *mode == "802.3ad" {
                let _ = write!(
                    words,
                    " lacp_rate {}",
                    if *lacp_fast { "fast" } else { "slow" }
                );
            }
            Some(words)
        }
        Device::Vlan { below, id } => Some(format!(
            "link add link {below} name {name} type vlan id {id}"
        )),
    }
}

/// KERNEL: bonding.rst, xmit_hash_policy: the modes that use it.
pub(super) fn has_hash(mode: &str) -> bool {
    matches!(mode, "balance-xor" | "802.3ad" | "balance-tlb")
}

/// A route as `ip route` takes it.
pub fn route_words(route: &Route) -> String {
    let mut words = match route.to.prefix_len() {
        0 => "default".to_owned(),
        _ => route.to.to_string(),
    };
    if let Some(via) = route.via {
        let _ = write!(words, " via {via}");
    }
    let _ = write!(words, " dev {}", route.link);
    if route.via.is_none() && route.to.addr().is_ipv4() {
        words += " scope link";
    }
    if let Some(from) = route.from {
        let _ = write!(words, " src {from}"); // KERNEL: ip's word
    }
    // A route by a neighbour whose own route is a host route.
    if route.via.is_some() && route.from.is_some() {
        words += " onlink";
    }
    words
}
