//! What is wrong at a link: drift, carrier, speed, duplex, counters.

use super::code::Code;
use super::finding::{Add, At};
use super::observation::Observation;
use crate::diff::diff;
use crate::inventory::{Farm, Kind, Wiring};
use crate::observe::Seen;
use crate::plan::plan;

/// Frames with errors below this many are chance.
const ERRORS_MIN: u64 = 10;

pub(super) fn check(farm: &Farm, one: &Observation, all: &[Observation], add: Add) {
    let Some(node) = farm.node(&one.node) else {
        return;
    };
    let plan = plan(farm, node);
    for drift in diff(&plan, &one.network) {
        let link = drift.link.as_str();
        let at = At::link(&one.node, link);
        let what = format!("wanted {}, found {}", drift.wanted, drift.found);
        let show = format!("ip -d address show dev {link}");
        match drift.code {
            "missing" | "kind" | "vlan" => add(Code::LinkMissing, at, what, "ip -d link".into()),
            "name" => add(Code::LinkName, at, what, "ip link".into()),
            "mtu" => add(
                Code::MtuSetting,
                at,
                what,
                format!("ip link show dev {link}"),
            ),
            "down" => add(Code::LinkDown, at, what, format!("ip link show dev {link}")),
            "member" => add(
                Code::BondMember,
                at,
                what,
                format!("ip -d link show dev {link}"),
            ),
            "bond" if drift.wanted.starts_with("miimon") && drift.found == "miimon 0" => {
                add(
                    Code::BondMiimon,
                    at,
                    what,
                    format!("ip -d link show dev {link}"),
                );
            }
            "bond" => add(
                Code::BondMember,
                at,
                what,
                format!("ip -d link show dev {link}"),
            ),
            // Further addresses are the administrator's own affair.
            "address" if drift.found == "not there" => add(Code::Address, at, what, show),
            "route" if drift.wanted != "no such route" => {
                let to = drift.wanted.split_whitespace().next().unwrap_or_default();
                let to = to.split('/').next().unwrap_or_default();
                add(Code::Route, at, what, format!("ip route get {to}"));
            }
            "sysctl" => {
                let at = At::link(&one.node, "");
                let what = format!("{link}: {what}");
                add(Code::Sysctl, at, what, format!("sysctl {link}"));
            }
            _ => {}
        }
    }
    for planned in &plan.links {
        let Some(seen) = one.network.links.iter().find(|s| s.name == planned.name) else {
            continue;
        };
        carrier(one, seen, add);
        rate(farm, one, all, seen, add);
        errors(one, seen, add);
    }
    for (link, times) in &one.flaps {
        let what = format!("{times} changes while the doctor looked");
        let evidence = format!("cat /sys/class/net/{link}/carrier_changes");
        add(Code::Flapping, At::link(&one.node, link), what, evidence);
    }
    for extra in one.extras.iter().filter(|e| e.lro) {
        let forwards = plan
            .sysctls
            .keys()
            .any(|k| k.ends_with("forward") || k.ends_with("forwarding"));
        if forwards {
            let evidence = format!("ethtool -k {} | grep large-receive", extra.link);
            add(
                Code::Offload,
                At::link(&one.node, &extra.link),
                "large receive offload is on".into(),
                evidence,
            );
        }
    }
}

fn carrier(one: &Observation, seen: &Seen, add: Add) {
    let flapping = one.flaps.iter().any(|(l, _)| *l == seen.name);
    if seen.up && !seen.carrier && !flapping {
        let evidence = format!("cat /sys/class/net/{}/carrier", seen.name);
        add(
            Code::NoCarrier,
            At::link(&one.node, &seen.name),
            "up, and no carrier".into(),
            evidence,
        );
    }
}

/// Half duplex where the net is no hub; slower than the inventory says, or than most links of the net.
fn rate(farm: &Farm, one: &Observation, all: &[Observation], seen: &Seen, add: Add) {
    let nets = nets(farm, &one.node, &seen.name);
    let evidence = format!("ethtool {}", seen.name);
    let at = At::link(&one.node, &seen.name);
    let hub = !nets.is_empty() && nets.iter().all(|n| farm.nets[*n].wiring == Wiring::Hub);
    if seen.counters.duplex == "half" && !hub {
        add(Code::Duplex, at, "half duplex".into(), evidence.clone());
    }
    let Some(speed) = seen.counters.speed_mbit else {
        return;
    };
    let declared = nets.iter().filter_map(|n| farm.nets[*n].mbit).max();
    // Bonds tell the sum of their members.
    let usual = declared.or_else(|| {
        let same = all.iter().filter(|o| o.node != one.node).flat_map(|o| {
            let in_net = |s: &&Seen| {
                self::nets(farm, &o.node, &s.name)
                    .iter()
                    .any(|n| nets.contains(n))
            };
            o.network
                .links
                .iter()
                .filter(in_net)
                .filter_map(|s| s.counters.speed_mbit)
        });
        let mut speeds: Vec<u32> = same.collect();
        speeds.sort_unstable();
        (speeds.len() >= 2).then(|| speeds[(speeds.len() - 1) / 2])
    });
    if let Some(usual) = usual.filter(|usual| speed < *usual) {
        add(
            Code::Speed,
            at,
            format!("{speed} Mbit/s instead of {usual}"),
            evidence,
        );
    }
}

/// The nets of a link, or of the bond that it is in.
fn nets<'a>(farm: &'a Farm, node: &str, link: &str) -> Vec<&'a str> {
    let Some(node) = farm.node(node) else {
        return Vec::new();
    };
    let base = link.split('.').next().unwrap_or(link);
    let own = node.links.iter().filter(|l| {
        l.name == base || matches!(&l.kind, Kind::Bond(b) if b.of.iter().any(|m| m == base))
    });
    own.flat_map(|l| &l.nets).map(|a| a.net.as_str()).collect()
}

fn errors(one: &Observation, seen: &Seen, add: Add) {
    let c = &seen.counters;
    let evidence = format!("ip -s -s link show dev {}", seen.name);
    let at = At::link(&one.node, &seen.name);
    if c.rx_crc_errors >= ERRORS_MIN {
        add(
            Code::Errors,
            at,
            format!("{} frames with a wrong checksum", c.rx_crc_errors),
            evidence,
        );
    } else if c.tx_window_errors >= ERRORS_MIN {
        add(
            Code::Errors,
            at,
            format!("{} late collisions", c.tx_window_errors),
            evidence,
        );
    }
}
