//! netplan(5), version 2. Names of cards are netplan's own `match` and `set-name`.

use super::file::{File, MARK};
use crate::plan::{Device, NodePlan, Planned, Route};
use std::fmt::Write as _;

pub(super) fn file(plan: &NodePlan) -> File {
    File {
        path: "/etc/netplan/60-armento.yaml".into(),
        text: text(plan),
        mode: 0o600,
    }
}

fn text(plan: &NodePlan) -> String {
    let mut text = format!("{MARK}\nnetwork:\n  version: 2\n  renderer: networkd\n");
    let kind_of = |l: &Planned| match l.device {
        Device::Nic { .. } => "ethernets",
        Device::Bond { .. } => "bonds",
        Device::Vlan { .. } => "vlans",
    };
    for kind in ["ethernets", "bonds", "vlans"] {
        let links: Vec<&Planned> = plan.links.iter().filter(|l| kind_of(l) == kind).collect();
        if links.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {kind}:");
        for link in links {
            text += &self::link(plan, link);
        }
    }
    text
}

fn link(plan: &NodePlan, link: &Planned) -> String {
    let mut text = format!("    {}:\n", link.name);
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "      {l}");
    match &link.device {
        Device::Nic { mac: Some(mac), .. } => {
            line(format_args!("match:"));
            line(format_args!("  macaddress: \"{mac}\""));
            line(format_args!("set-name: {}", link.name));
        }
        Device::Nic { mac: None, .. } => {}
        Device::Bond {
            mac,
            of,
            mode,
            miimon_ms,
            lacp_fast,
            hash,
        } => {
            line(format_args!("interfaces: [{}]", of.join(", ")));
            if let Some(mac) = mac {
                line(format_args!("macaddress: \"{mac}\""));
            }
            line(format_args!("parameters:"));
            line(format_args!("  mode: {mode}"));
            line(format_args!("  mii-monitor-interval: {miimon_ms}"));
            if super::ip::has_hash(mode) {
                line(format_args!("  transmit-hash-policy: {hash}"));
            }
            if *mode == "802.3ad" {
                line(format_args!(
                    "  lacp-rate: {}",
                    if *lacp_fast { "fast" } else { "slow" }
                ));
            }
        }
        Device::Vlan { below, id } => {
            line(format_args!("id: {id}"));
            line(format_args!("link: {below}"));
        }
    }
    line(format_args!("mtu: {}", link.mtu));
    line(format_args!("dhcp4: false"));
    line(format_args!("dhcp6: false"));
    // Without a cable the addresses are set all the same, as `ip` does.
    line(format_args!("ignore-carrier: true"));
    if !link.addresses.is_empty() {
        line(format_args!("addresses:"));
        for address in &link.addresses {
            line(format_args!("  - \"{address}\""));
        }
    }
    let routes: Vec<&Route> = plan.routes.iter().filter(|r| r.link == link.name).collect();
    if !routes.is_empty() {
        line(format_args!("routes:"));
    }
    for route in routes {
        let to = match route.to.prefix_len() {
            0 => "default".to_owned(),
            _ => route.to.to_string(),
        };
        line(format_args!("  - to: \"{to}\""));
        if let Some(via) = route.via {
            line(format_args!("    via: \"{via}\""));
        }
        if route.via.is_none() {
            line(format_args!("    scope: link"));
        }
        if let Some(from) = route.from {
            line(format_args!("    from: \"{from}\""));
        }
        if route.via.is_some() && route.from.is_some() {
            line(format_args!("    on-link: true"));
        }
    }
    text
}
