//! /etc/openmosix.map: number, first address, count; then other addresses of a number as ALIAS.

use super::file::MARK;
use crate::inventory::Farm;
use std::net::{IpAddr, Ipv4Addr};

/// Entries that openMosix reads.
pub const ENTRIES_MAX: usize = 256;

/// The map, and what it cannot say. Consecutive numbers with consecutive addresses share a line.
pub fn openmosix_map(farm: &Farm) -> (String, Vec<String>) {
    let mut losses = Vec::new();
    let mut lines: Vec<(u16, Ipv4Addr, u16)> = Vec::new();
    let main = farm.main_net().map(|n| n.name.clone()).unwrap_or_default();
    let mut aliases = Vec::new();
    for node in &farm.nodes {
        match node.address(&main) {
            Some(IpAddr::V4(addr)) => match lines.last_mut() {
                Some((first, start, count))
                    if first.checked_add(*count) == Some(node.number)
                        && start.to_bits().checked_add(u32::from(*count))
                            == Some(addr.to_bits()) =>
                {
                    *count += 1;
                }
                _ => lines.push((node.number, addr, 1)),
            },
            Some(IpAddr::V6(addr)) => losses.push(format!("{}: {addr} is IPv6", node.name)),
            None => losses.push(format!("{}: no address in the net {main}", node.name)),
        }
        let mut seen = vec![main.as_str()];
        for attached in node.links.iter().flat_map(|l| &l.nets) {
            if !seen.contains(&attached.net.as_str()) && attached.address.is_ipv4() {
                seen.push(&attached.net);
                aliases.push(format!("{} {} ALIAS\n", node.number, attached.address));
            }
        }
    }
    let entries = lines.len() + aliases.len();
    if entries > ENTRIES_MAX {
        losses.push(format!("{entries} entries; openMosix reads {ENTRIES_MAX}"));
    }
    let ranges = lines
        .iter()
        .map(|(first, start, count)| format!("{first} {start} {count}\n"));
    (
        format!("{MARK}\n{}{}", ranges.collect::<String>(), aliases.concat()),
        losses,
    )
}
