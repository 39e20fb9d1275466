//! interfaces(5) of Debian's ifupdown.
//!
//! Bonds are made by `ip`, not by the scripts of ifenslave, which Debian does not install by itself and which call some
//! settings by other names.

use super::file::{File, MARK};
use super::ip::{add_address, add_link, route_words};
use crate::plan::{Device, NodePlan, Planned};
use std::fmt::Write as _;

pub(super) fn file(plan: &NodePlan) -> File {
    File {
        path: "/etc/network/interfaces.d/armento".into(),
        text: text(plan),
        mode: 0o644,
    }
}

fn text(plan: &NodePlan) -> String {
    let mut text = format!("{MARK}\n");
    for link in &plan.links {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nauto {}", link.name);
        stanza(plan, link, &mut text);
    }
    text
}

fn stanza(plan: &NodePlan, link: &Planned, text: &mut String) {
    let name = &link.name;
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "{l}");
    // Of a single address ifupdown makes a broadcast address that no other back end sets.
    let single = |a: &&ipnet::IpNet| a.addr().is_ipv4() && a.prefix_len() > 30;
    let first = link.addresses.first().filter(|a| !single(a));
    let family = if first.is_some_and(|a| a.addr().is_ipv6()) {
        "inet6"
    } else {
        "inet"
    };
    let method = if first.is_some() { "static" } else { "manual" };
    line(format_args!("iface {name} {family} {method}"));
    // A VLAN's name, `bond0.4`, is enough: ifupdown makes and removes it by itself.
    let add = add_link(link).filter(|_| !matches!(link.device, Device::Vlan { .. }));
    if let Some(add) = add {
        // It may be there: left by a start that failed, or brought up for a VLAN on it.
        line(format_args!(
            "    pre-up test -d /sys/class/net/{name} || ip {add}"
        ));
    }
    if let Device::Bond { of, .. } = &link.device {
        for member in of {
            line(format_args!("    pre-up ip link set dev {member} down"));
            line(format_args!(
                "    pre-up ip link set dev {member} master {name}"
            )); // KERNEL: ip's word
        }
    }
    if let Some(address) = first {
        line(format_args!("    address {address}"));
        if family == "inet6" {
            // interfaces(5): 0 otherwise, while the other back ends leave the kernel's value.
            line(format_args!("    autoconf 1"));
        }
    }
    // `mtu` of the method `manual` is ignored by some versions.
    line(format_args!(
        "    pre-up ip link set dev {name} mtu {}",
        link.mtu
    ));
    if first.is_none() {
        line(format_args!("    up ip link set dev {name} up"));
    }
    for address in link.addresses.iter().filter(|a| Some(*a) != first) {
        line(format_args!("    up ip {}", add_address(address, name)));
    }
    if let Device::Bond { of, .. } = &link.device {
        for member in of {
            line(format_args!("    up ip link set dev {member} up"));
        }
    }
    for route in plan.routes.iter().filter(|r| r.link == *name) {
        line(format_args!(
            "    up ip route replace {}",
            route_words(route)
        ));
    }
    match &link.device {
        Device::Nic { .. } if first.is_none() => {
            line(format_args!("    down ip link set dev {name} down"))
        }
        Device::Nic { .. } | Device::Vlan { .. } => {}
        Device::Bond { .. } => line(format_args!("    post-down ip link del dev {name}")),
    }
}
