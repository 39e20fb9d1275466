//! /etc/openmosix.map: `first-ID host-or-address count`, and `ID address ALIAS`.

use super::draft::{Draft, with_mask};
use super::given::{Given, ImportError};
use super::hosts::Hosts;
use crate::inventory::NODES_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

pub(super) fn read(files: &[Given], hosts: &Hosts) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    let mut main: BTreeMap<u16, (Ipv4Addr, usize)> = BTreeMap::new();
    let mut aliases: Vec<(u16, Ipv4Addr)> = Vec::new();
    for file in files {
        for (i, line) in file.text.lines().enumerate() {
            let fail = |what: String| ImportError::Line {
                file: file.name.clone(),
                line: i + 1,
                what,
            };
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            // Lines of a hosts file beside it begin with an address.
            if words.is_empty() || words[0].parse::<IpAddr>().is_ok() {
                continue;
            }
            let [id, host, count] = words[..] else {
                return Err(fail(
                    "expected `number address count` or `number address ALIAS`".into(),
                ));
            };
            let id: u16 = id
                .parse()
                .ok()
                .filter(|id| *id > 0)
                .ok_or_else(|| fail(format!("`{id}` is no number from 1 to 65535")))?;
            let start = match hosts.address(host) {
                Some(IpAddr::V4(a)) => a,
                _ => {
                    return Err(fail(format!(
                        "`{host}` has no address in the files; add a hosts file"
                    )));
                }
            };
            if count == "ALIAS" {
                aliases.push((id, start));
                continue;
            }
            let count: u16 = count
                .parse()
                .ok()
                .filter(|c| *c > 0)
                .ok_or_else(|| fail(format!("`{count}` is no count")))?;
            for step in 0..count {
                let number = id
                    .checked_add(step)
                    .ok_or_else(|| fail(format!("numbers go beyond {NODES_MAX}")))?;
                let addr = start
                    .to_bits()
                    .checked_add(step.into())
                    .map(Ipv4Addr::from_bits);
                let addr =
                    addr.ok_or_else(|| fail("addresses go beyond 255.255.255.255".into()))?;
                if let Some((_, other)) = main.insert(number, (addr, i + 1)) {
                    return Err(fail(format!("number {number} is also on line {other}")));
                }
            }
        }
    }
    let mut devices: BTreeMap<u16, usize> = BTreeMap::new();
    let mask = common_length(main.values().map(|(a, _)| *a));
    for (number, (addr, _)) in &main {
        let name = hosts
            .name(IpAddr::V4(*addr))
            .map_or_else(|| format!("n{number}"), str::to_owned);
        let machine = draft.machine(&name);
        machine.number = Some(*number);
        machine.devices.entry("eth0".into()).or_default().address =
            with_mask(IpAddr::V4(*addr), &mask.to_string());
    }
    for (number, addr) in aliases {
        if !main.contains_key(&number) {
            draft.lose(format!("ALIAS {addr}: no line has number {number}"));
            continue;
        }
        let Some(machine) = draft.nodes.iter_mut().find(|m| m.number == Some(number)) else {
            continue;
        };
        let nth = devices.entry(number).or_insert(0);
        *nth += 1;
        machine
            .devices
            .entry(format!("eth{nth}"))
            .or_default()
            .address = with_mask(IpAddr::V4(addr), "24");
    }
    draft.lose(format!(
        "masks: the map has none; /{mask} was taken, /24 for ALIAS lines"
    ));
    draft.lose(
        "hardware addresses: the map has none; cards keep the kernel's names until `mac` says more",
    );
    Ok(draft)
}

/// The longest of /24, /16, /8 and /0 that has all addresses.
fn common_length(addresses: impl Iterator<Item = Ipv4Addr>) -> u8 {
    let bits: Vec<u32> = addresses.map(Ipv4Addr::to_bits).collect();
    let Some(first) = bits.first() else {
        return 24;
    };
    let fits = |len: &&u8| {
        bits.iter()
            .all(|b| (b ^ first).checked_shr(32 - u32::from(**len)).unwrap_or(0) == 0)
    };
    [24, 16, 8].iter().find(fits).copied().unwrap_or(0)
}
