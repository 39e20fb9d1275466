//! Perceus: the file of its module ipaddr, `name-or-pattern dev[(K=V&K=V)]:ip/mask[/gw] …`, read as its script does.
//!
//! Source: perceus 1.6, modules/ipaddr/50-ipaddr.pl. An exact name discards what patterns said and ends the scan; later
//! patterns override per device.

use super::draft::{Device, Draft, vlan_of, with_mask};
use super::given::{Given, ImportError};
use super::hosts::Hosts;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A line of the file.
struct Line<'a> {
    file: &'a str,
    number: usize,
    name: &'a str,
    devices: Vec<&'a str>,
}

pub(super) fn read(files: &[Given], hosts: &Hosts) -> Result<Draft, ImportError> {
    let lines: Vec<Line> = files.iter().flat_map(lines).collect();
    let mut draft = Draft::default();
    for (_, name) in &hosts.cards {
        draft.machine(name);
    }
    for line in lines.iter().filter(|l| !l.name.contains('*')) {
        draft.machine(line.name);
    }
    let names: Vec<String> = draft.nodes.iter().map(|m| m.name.clone()).collect();
    for name in &names {
        let mut devices = BTreeMap::new();
        for line in &lines {
            let exact = line.name == name;
            if exact {
                devices.clear();
            } else if !glob(line.name, name) {
                continue;
            }
            for text in &line.devices {
                let (device, settings) = device(name, text, line, hosts, &mut draft)?;
                devices.insert(device, settings);
            }
            if exact {
                break;
            }
        }
        let machine = draft.machine(name);
        machine.devices = devices;
    }
    cards(&mut draft, hosts);
    Ok(draft)
}

/// Hardware addresses of lists: of a node's only one, it is the card that it boots from, which Perceus calls eth0.
fn cards(draft: &mut Draft, hosts: &Hosts) {
    for (mac, name) in &hosts.cards {
        let machine = draft.machine(name);
        let free = machine
            .devices
            .iter_mut()
            .find(|(n, d)| n.starts_with("eth") && d.mac.is_none() && d.vlan.is_none());
        match free {
            Some((_, device)) => device.mac = Some(*mac),
            None => draft.lose(format!("{name}: no device for the card {mac}")),
        }
    }
}

fn lines(file: &Given) -> Vec<Line<'_>> {
    let is_mac = |w: &str| w.parse::<crate::addr::Mac>().is_ok();
    let mut found = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(name) = words.next() else {
            continue;
        };
        let devices: Vec<&str> = words.collect();
        let is_device = |w: &&str| w.contains(':') && !is_mac(w);
        let is_name = name.parse::<IpAddr>().is_err() && !is_mac(name);
        if is_name && !devices.is_empty() && devices.iter().all(is_device) {
            found.push(Line {
                file: &file.name,
                number: i + 1,
                name,
                devices,
            });
        }
    }
    found
}

/// `*` is any text; the rest is itself (the script reads it as a regular expression, which names do not use).
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn device(
    node: &str,
    text: &str,
    line: &Line,
    hosts: &Hosts,
    draft: &mut Draft,
) -> Result<(String, Device), ImportError> {
    let fail = |what: String| ImportError::Line {
        file: line.file.to_owned(),
        line: line.number,
        what,
    };
    let (name, options, address) = match text.split_once('(') {
        Some((name, rest)) => {
            let (options, address) = rest
                .split_once("):")
                .ok_or_else(|| fail(format!("`{text}`: no closing `):`")))?;
            (name, options, address)
        }
        None => {
            let (name, address) = text.split_once(':').unwrap_or((text, ""));
            (name, "", address)
        }
    };
    let mut device = Device {
        vlan: vlan_of(name),
        ..Device::default()
    };
    for option in options.split('&').filter(|o| !o.is_empty()) {
        self::option(node, name, option, &mut device, draft);
    }
    let mut parts = split(address).into_iter();
    let (ip, mask, gateway) = (parts.next(), parts.next(), parts.next());
    let lookup = |who: &str| hosts.address(who);
    let own = match ip.unwrap_or_default() {
        "" => return Ok((name.to_owned(), device)),
        "dhcp" => {
            draft.lose(format!(
                "{node} {name}: address by DHCP; it was given one by its number"
            ));
            return Ok((name.to_owned(), device));
        }
        "[default]" | "[hostfile]" => lookup(node),
        ip if ip.starts_with('[') && ip.contains(':') => {
            let who = ip
                .trim_matches(['[', ']'])
                .split_once(':')
                .map_or("", |(_, w)| w);
            lookup(&who.replace("NAME", node).replace("NIC", name))
        }
        ip => {
            let digits: String = node
                .chars()
                .skip_while(|c| !c.is_ascii_digit())
                .take_while(char::is_ascii_digit)
                .collect();
            let number = digits.trim_start_matches('0');
            let number = if number.is_empty() { "0" } else { number };
            let ip = ip.replace("[nodenum]", number);
            Some(
                ip.parse()
                    .map_err(|_| fail(format!("`{ip}` is no address")))?,
            )
        }
    };
    let Some(own) = own else {
        draft.lose(format!(
            "{node} {name}: no hosts file has its address; it was given one by its number"
        ));
        return Ok((name.to_owned(), device));
    };
    let mask = mask.unwrap_or_default();
    if mask.starts_with('[') || mask.is_empty() {
        draft.lose(format!("{name}: the mask {mask} is that of the server's card; the class of the address was taken"));
    }
    let plain = if mask.starts_with('[') { "" } else { mask };
    device.address =
        Some(with_mask(own, plain).ok_or_else(|| fail(format!("`{mask}` is no mask")))?);
    match gateway {
        None | Some("") => {}
        Some(g) if g.starts_with('[') => draft.lose(format!(
            "{name}: the gateway {g} is an address of the server"
        )),
        Some(g) => {
            device.gateway = Some(
                g.parse()
                    .map_err(|_| fail(format!("`{g}` is no gateway")))?,
            )
        }
    }
    Ok((name.to_owned(), device))
}

/// At slashes; those within brackets are none of it.
fn split(address: &str) -> Vec<&str> {
    let mut depth = 0;
    let at = move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == '/' && depth == 0
    };
    address.split(at).collect()
}

/// A line of an ifcfg file.
fn option(node: &str, name: &str, option: &str, device: &mut Device, draft: &mut Draft) {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let value = value.trim_matches(['"', '\'']);
    match key {
        "MTU" => match value.parse() {
            Ok(mtu) => device.mtu = Some(mtu),
            Err(_) => draft.lose(format!("{node} {name}: {option}")),
        },
        "HWADDR" => device.mac = value.parse().ok(),
        "MASTER" => device.bond = Some(value.to_owned()),
        "SLAVE" | "VLAN" | "ONBOOT" | "USERCTL" => {}
        "BONDING_OPTS" => {
            let pairs = value
                .split([' ', ',', ';'])
                .filter_map(|p| p.split_once('='));
            device.bonding = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        }
        "mode" | "miimon" | "lacp_rate" => {
            _ = device.bonding.insert(key.to_owned(), value.to_owned())
        }
        _ => draft.lose(format!("{name}: {option}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_any_text() {
        let check = |pattern: &str, name: &str, expected| {
            assert_eq!(glob(pattern, name), expected, "{pattern} {name}")
        };
        check("*", "n0001", true);
        check("io*", "io7", true);
        check("io*", "n1", false);
        check("n*1", "n0001", true);
        check("n*1", "n0002", false);
        check("n0001", "n0001", true);
        check("n000", "n0001", false);
        check("n*0*1", "n1001", true);
    }
}
