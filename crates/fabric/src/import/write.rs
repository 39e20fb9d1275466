//! From a draft to the text of an inventory.

use super::draft::{Device, Draft, Machine};
use crate::addr::is_host;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

/// A net that addresses tell of.
struct Net {
    name: String,
    cidr: IpNet,
    vlan: Option<u16>,
    mtu: u32,
    gateway: Option<IpAddr>,
}

/// Where devices without any address are put.
const UNADDRESSED: &str = "192.168.1.0/24";

/// The inventory's text; losses are added to the draft's.
pub(super) fn text(draft: &mut Draft, system: &str) -> String {
    let nets = nets(draft);
    let mut text = format!(
        "# Imported by `armento fabric import --as {system}`.\nfarm = {{ name = \"imported\" }}\n\n"
    );
    for net in &nets {
        // Writing to a String cannot fail.
        let _ = write!(text, "net.{} = {{ cidr = \"{}\"", net.name, net.cidr);
        if let Some(vlan) = net.vlan {
            let _ = write!(text, ", vlan = {vlan}");
        }
        if net.mtu != 1500 {
            let _ = write!(text, ", mtu = {}", net.mtu);
        }
        if let Some(gateway) = net.gateway {
            let _ = write!(text, ", gateway = \"{gateway}\"");
        }
        text += " }\n";
    }
    text += "\n";
    let numbers = numbers(draft);
    let nodes = std::mem::take(&mut draft.nodes);
    for (machine, number) in nodes.iter().zip(&numbers) {
        text += &node(machine, *number, &nets, draft);
    }
    draft.nodes = nodes;
    text
}

/// Their own numbers, and the free ones in their order for the others.
fn numbers(draft: &Draft) -> Vec<usize> {
    let used: BTreeSet<usize> = draft
        .nodes
        .iter()
        .filter_map(|m| m.number)
        .map(usize::from)
        .collect();
    let mut free = (1..).filter(|n| !used.contains(n));
    let number = |m: &Machine| {
        m.number
            .map_or_else(|| free.next().unwrap_or(0), usize::from)
    };
    draft.nodes.iter().map(number).collect()
}

fn nets(draft: &mut Draft) -> Vec<Net> {
    let mut found: BTreeMap<(Option<u16>, IpNet), (u32, Option<IpAddr>)> = BTreeMap::new();
    let mut addressed = false;
    let mut clash = Vec::new();
    for device in draft.nodes.iter().flat_map(|m| m.devices.values()) {
        let Some(address) = device.address else {
            continue;
        };
        addressed = true;
        let key = (device.vlan.as_ref().map(|v| v.1), address.trunc());
        let (mtu, gateway) = found.entry(key).or_insert((1500, None));
        *mtu = (*mtu).max(device.mtu.unwrap_or(1500));
        match (&gateway, device.gateway) {
            (Some(a), Some(b)) if *a != b => clash.push(format!(
                "the gateway {b}: {} has {a} already",
                address.trunc()
            )),
            (None, Some(g)) if is_host(address.trunc(), g) => *gateway = Some(g),
            (None, Some(g)) => clash.push(format!(
                "the gateway {g}, which is not in {}",
                address.trunc()
            )),
            _ => {}
        }
    }
    for what in clash {
        draft.lose(what);
    }
    if !addressed && let Ok(cidr) = UNADDRESSED.parse() {
        found.insert((None, cidr), (1500, None));
    }
    let net = |(i, ((vlan, cidr), (mtu, gateway)))| Net {
        name: format!("net{i}"),
        cidr,
        vlan,
        mtu,
        gateway,
    };
    found.into_iter().enumerate().map(net).collect()
}

/// Kernel names change with slots: `eth0` becomes `lan0`.
fn link_name(device: &str) -> String {
    match device.strip_prefix("eth") {
        Some(n) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => format!("lan{n}"),
        _ => device
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .take(10)
            .collect(),
    }
}

fn node(machine: &Machine, number: usize, nets: &[Net], draft: &mut Draft) -> String {
    let net_of = |d: &Device| {
        let address = d.address?;
        let vlan = d.vlan.as_ref().map(|v| v.1);
        nets.iter()
            .find(|n| n.cidr == address.trunc() && n.vlan == vlan)
    };
    let mut links = Vec::new();
    let (mut macs, mut addresses) = (Vec::new(), Vec::new());
    let mut guessed = false;
    for (name, device) in &machine.devices {
        if device.vlan.is_some() {
            continue;
        }
        let above = machine
            .devices
            .values()
            .filter(|d| d.vlan.as_ref().is_some_and(|v| v.0 == *name));
        let mut on: Vec<&str> = Vec::new();
        for d in std::iter::once(device).chain(above) {
            match (net_of(d), d.address) {
                (Some(net), Some(address)) => {
                    on.push(&net.name);
                    addresses.push(format!("{} = \"{}\"", net.name, address.addr()));
                }
                _ if d.vlan.is_some() => draft.lose(format!(
                    "{}: a VLAN on {name} without an address",
                    machine.name
                )),
                // Without an address, but of no bond: the first net is the best guess.
                _ if d.bond.is_none() && !is_bond(machine, name) => {
                    let taken = |n: &&Net| {
                        machine
                            .devices
                            .values()
                            .any(|d| net_of(d).is_some_and(|o| o.name == n.name))
                    };
                    let first = nets.first().filter(|n| !taken(n) && !guessed);
                    guessed |= first.is_some();
                    on.extend(first.map(|n| n.name.as_str()));
                }
                _ => {}
            }
        }
        let link = link_name(name);
        if let Some(mac) = device.mac {
            macs.push(format!("{link} = \"{mac}\""));
        }
        let list: Vec<String> = on.iter().map(|n| format!("\"{n}\"")).collect();
        let of: Vec<String> = members(machine, name)
            .map(|m| format!("\"{}\"", link_name(m)))
            .collect();
        let net = match list.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            more => format!("[{}]", more.join(", ")),
        };
        if of.is_empty() {
            match net.is_empty() {
                false => links.push(format!("{link} = {net}")),
                true if device.mac.is_some() && device.bond.is_none() => {
                    links.push(format!("{link} = []"))
                }
                true => {}
            }
            continue;
        }
        let mut bond = format!("{link} = {{ of = [{}]", of.join(", "));
        for (key, value) in &device.bonding {
            match key.as_str() {
                "mode" => _ = write!(bond, ", mode = \"{value}\""),
                "miimon" => _ = write!(bond, ", miimon_ms = {value}"),
                "lacp_rate" => {
                    let word = if matches!(value.as_str(), "1" | "fast") {
                        "fast"
                    } else {
                        "slow"
                    };
                    let _ = write!(bond, ", lacp_rate = \"{word}\"");
                }
                "xmit_hash_policy" => _ = write!(bond, ", hash = \"{value}\""),
                _ => draft.lose(format!("{name}: {key}={value}")),
            }
        }
        if !net.is_empty() {
            let _ = write!(bond, ", net = {net}");
        }
        links.push(bond + " }");
    }
    let mut text = format!("node.{} = {{ id = {number}", machine.name);
    for link in links {
        let _ = write!(text, ", {link}");
    }
    if !macs.is_empty() {
        let _ = write!(text, ", mac = {{ {} }}", macs.join(", "));
    }
    if !addresses.is_empty() {
        let _ = write!(text, ", address = {{ {} }}", addresses.join(", "));
    }
    text + " }\n"
}

fn members<'a>(machine: &'a Machine, bond: &'a str) -> impl Iterator<Item = &'a String> {
    machine
        .devices
        .iter()
        .filter(move |(_, d)| d.bond.as_deref() == Some(bond))
        .map(|(n, _)| n)
}

fn is_bond(machine: &Machine, name: &str) -> bool {
    members(machine, name).next().is_some()
}
