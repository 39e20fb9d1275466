//! What is wrong between two nodes: routes, size, loss, answers for addresses, clocks.

use super::code::Code;
use super::finding::{Add, At};
use super::observation::{Observation, PathSeen};
use crate::addr::Mac;
use crate::inventory::{Farm, Wiring};
use crate::plan::plan;
use crate::topology::hops;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Share of large frames that may be lost by chance, percent: of 20 frames, one.
const LOSS_MAX: u32 = 5;

pub(super) fn check(farm: &Farm, one: &Observation, all: &[Observation], add: Add) {
    for path in &one.paths {
        let link = expected(farm, &one.node, path);
        let link = link.as_deref().unwrap_or_default();
        let at = At {
            node: &one.node,
            link,
            peer: Some(&path.peer),
        };
        if let Some(by) = path
            .link
            .as_deref()
            .filter(|by| !link.is_empty() && *by != link)
        {
            let what = format!(
                "packets to {} ({}) leave by {by}, not by {link}",
                path.peer, path.address
            );
            add(
                Code::Route,
                at,
                what,
                format!("ip route get {}", path.address),
            );
        }
        reach(path, at, add);
        asymmetric(one, path, all, at, add);
    }
    answers(farm, one, all, add);
    if one.rp_drops > 0 {
        let what = format!("{} packets dropped while the doctor looked", one.rp_drops);
        add(
            Code::RpFilter,
            At::link(&one.node, ""),
            what,
            "nstat -az TcpExtIPReversePathFilter".into(),
        );
    }
    let servers: Vec<IpAddr> = farm
        .nets
        .values()
        .filter(|n| n.boot)
        .flat_map(|n| {
            let servers = farm.boot_servers.iter().filter_map(|s| farm.node(s));
            servers
                .filter_map(|s| s.address(&n.name))
                .collect::<Vec<_>>()
        })
        .collect();
    for (link, server) in one.dhcp.iter().filter(|(_, s)| !servers.contains(s)) {
        let what = format!("{server} answers");
        add(
            Code::DhcpSecond,
            At::link(&one.node, link),
            what,
            format!("tcpdump -ni {link} port 67 or port 68"),
        );
    }
    for flow in one
        .flows
        .iter()
        .filter(|f| f.wrong > 0 || !f.broken.is_empty())
    {
        let at = At {
            node: &one.node,
            link: "",
            peer: Some(&flow.peer),
        };
        let broken = flow
            .broken
            .first()
            .map_or(String::new(), |b| format!("; a connection ended: {b}"));
        let what = format!(
            "{} blocks changed among {} MiB{broken}",
            flow.wrong,
            flow.bytes >> 20
        );
        add(
            Code::Corruption,
            at,
            what,
            format!(
                "armento fabric doctor --pair {} {} --load",
                one.node, flow.peer
            ),
        );
    }
}

/// The device by which the plan sends to a peer in a net.
fn expected(farm: &Farm, me: &str, path: &PathSeen) -> Option<String> {
    let (node, net) = (farm.node(me)?, farm.nets.get(&path.net)?);
    if let Wiring::Direct(direct) = &net.wiring {
        return hops(direct, me)
            .into_iter()
            .find(|h| h.peer == path.peer)
            .map(|h| h.link);
    }
    let own = node.address(&path.net)?;
    let links = plan(farm, node).links;
    links
        .into_iter()
        .find(|l| l.addresses.iter().any(|a| a.addr() == own))
        .map(|l| l.name)
}

fn reach(path: &PathSeen, at: At, add: Add) {
    let PathSeen {
        address,
        small,
        full,
        ..
    } = path;
    if small.1 > 0 && small.0 == 0 {
        let what = format!("{address}: none of {} echo requests was answered", small.1);
        add(Code::Unreachable, at, what, format!("ping -c 3 {address}"));
        return;
    }
    let lost = full.1.saturating_sub(full.0);
    // An echo request of the whole size that was answered has arrived whole: then it is no matter of size.
    let small_only = path
        .mtu
        .as_ref()
        .filter(|m| m.passed < m.wanted && full.0 == 0);
    if let Some(mtu) = small_only {
        // ping's size is without 8 bytes of ICMP and 20 of IP.
        let evidence = format!(
            "ping -c 3 -M do -s {} {address}",
            mtu.wanted.saturating_sub(28)
        );
        let what = match mtu.passed {
            0 => format!("no packet for {address} could be sent whole"),
            passed => format!(
                "packets of {passed} bytes arrive at {address}, of {} they do not",
                mtu.wanted
            ),
        };
        let code = if mtu.local {
            Code::MtuLocal
        } else {
            Code::MtuPath
        };
        add(code, at, what, evidence);
    } else if full.1 >= 10 && lost * 100 > LOSS_MAX * full.1 {
        let what = format!(
            "{lost} of {} large packets for {address} were lost, of small ones {} of {}",
            full.1,
            small.1 - small.0.min(small.1),
            small.1
        );
        let size = path
            .mtu
            .as_ref()
            .map_or(1472, |m| m.wanted.saturating_sub(28));
        add(
            Code::Loss,
            at,
            what,
            format!("ping -f -c 200 -s {size} {address}"),
        );
    }
}

/// The peer's packets to the same address pair come in by another link than the own ones leave.
fn asymmetric(one: &Observation, path: &PathSeen, all: &[Observation], at: At, add: Add) {
    let back = all.iter().find(|o| o.node == path.peer).and_then(|o| {
        o.paths
            .iter()
            .find(|p| p.peer == one.node && p.net == path.net)
    });
    let Some(back) = back else {
        return;
    };
    // Which of the peer's links faces this one is known from its frames.
    let facing: BTreeSet<&str> = one
        .heard
        .iter()
        .filter(|h| h.node == path.peer && Some(&h.link) == path.link.as_ref())
        .map(|h| h.from.as_str())
        .collect();
    if let Some(by) = back
        .link
        .as_deref()
        .filter(|by| !facing.is_empty() && !facing.contains(by))
    {
        let what = format!(
            "{} sends back by {by}, which is not what {} hears",
            path.peer, at.node
        );
        add(
            Code::Asymmetric,
            at,
            what,
            format!("ip route get {}", path.address),
        );
    }
}

/// Answers for addresses: from several cards of one node, or from somebody else.
fn answers(farm: &Farm, one: &Observation, all: &[Observation], add: Add) {
    for arp in &one.arp {
        let evidence = format!("arping -c 3 -I {} {}", arp.link, arp.address);
        let own = cards(farm, &arp.node, all);
        let foreign: Vec<String> = arp
            .macs
            .iter()
            .filter(|m| !own.contains(m))
            .map(|m| owner(farm, *m, all))
            .collect();
        let device = farm
            .node(&arp.node)
            .map(|n| plan(farm, n).links)
            .and_then(|links| {
                let has = |l: &crate::plan::Planned| {
                    l.addresses
                        .iter()
                        .any(|a| a.addr().to_string() == arp.address)
                };
                links.into_iter().find(has).map(|l| l.name)
            });
        let at = At::link(&arp.node, device.as_deref().unwrap_or_default());
        if !foreign.is_empty() && !own.is_empty() {
            let what = format!(
                "{} has {}, and {} answers for it",
                arp.node,
                arp.address,
                foreign.join(", ")
            );
            add(Code::DuplicateAddress, at, what, evidence);
        } else if arp.macs.len() > 1 && arp.node != one.node {
            let list: Vec<String> = arp.macs.iter().map(ToString::to_string).collect();
            let what = format!("for {} answer {}", arp.address, list.join(" and "));
            add(Code::ArpFlux, at, what, evidence);
        }
    }
}

/// Hardware addresses of a node, as it says and as the inventory says.
fn cards(farm: &Farm, node: &str, all: &[Observation]) -> BTreeSet<Mac> {
    let links = all
        .iter()
        .filter(|o| o.node == node)
        .flat_map(|o| &o.network.links);
    let said = links.flat_map(|l| [l.mac, l.permanent]).flatten();
    let links = farm.node(node).into_iter().flat_map(|n| &n.links);
    let declared = links.filter_map(|l| match l.kind {
        crate::inventory::Kind::Nic { mac } => mac,
        crate::inventory::Kind::Bond(_) => None,
    });
    said.chain(declared).collect()
}

/// A hardware address, with the node that has it if one is known.
fn owner(farm: &Farm, mac: Mac, all: &[Observation]) -> String {
    let node = farm
        .nodes
        .iter()
        .find(|n| cards(farm, &n.name, all).contains(&mac));
    node.map_or_else(|| mac.to_string(), |n| format!("{mac} ({})", n.name))
}
