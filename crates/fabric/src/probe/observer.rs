//! One node's look at itself and at its peers.

use super::{arp, beacon, dhcp, echo, load, size};
use crate::diagnose::{ArpAnswers, Flow, LinkExtra, OBSERVATION, Observation, PathSeen};
use crate::inventory::{Farm, Node, Wiring};
use crate::observe::{ObserveError, Observed, observe, run_ip};
use crate::plan::{Device, NodePlan, plan};
use crate::topology::hops;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only the paths to this node.
    pub peer: Option<String>,
    /// How long observers listen for each other.
    pub listen: Duration,
    /// Send data for so long to the peer, or to the next node, and receive that of others.
    pub load: Option<Duration>,
}

/// Paths that are probed; in larger farms the first ones.
const PATHS_MAX: usize = 256;
/// Peers whose packet sizes are probed at once.
const AT_ONCE: usize = 32;
/// Between the first observer that begins to send and the last one.
const LOAD_GRACE: Duration = Duration::from_secs(10);
const SMALL: u32 = 84;
const SMALL_COUNT: u32 = 5;
const FULL_COUNT: u32 = 20;

/// A peer's address in a net.
struct Way {
    peer: String,
    net: String,
    address: Ipv4Addr,
    mtu: u32,
    /// The device by which the plan sends there.
    link: String,
    direct: bool,
}

/// Looks at this machine as `node`, and at its peers. What cannot be looked at is named in `gaps`.
///
/// Errors: `ip` does not run here.
pub fn probe(farm: &Farm, node: &Node, options: &Options) -> Result<Observation, ObserveError> {
    let plan = plan(farm, node);
    let keys = || plan.sysctls.keys().map(String::as_str);
    let before = observe(keys())?;
    let drops = rp_drops();
    let ways = ways(farm, node, &plan, options);
    let mut gaps = Vec::new();
    let mut note = |what: &str, e: &dyn std::fmt::Display| gaps.push(format!("{what}: {e}"));
    let (heard, dhcp, (paths, arp)) = std::thread::scope(|s| {
        let beacons = s.spawn(|| {
            beacon::exchange(
                &farm.name,
                &node.name,
                &sending(&plan, &before),
                options.listen,
            )
        });
        // It waits for answers as long as the observers listen.
        let dhcp = s.spawn(|| dhcp_servers(farm, node, &before));
        let looked = (
            self::paths(&ways),
            answers(farm, node, &plan, &before, &ways),
        );
        (beacons.join(), dhcp.join(), looked)
    });
    let heard = match heard {
        Ok(Ok(heard)) => heard,
        Ok(Err(e)) => {
            note("frames of other observers", &e);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let paths = paths.unwrap_or_else(|e| {
        note("echo", &e);
        Vec::new()
    });
    let arp = arp.unwrap_or_else(|e| {
        note("answers for addresses", &e);
        Vec::new()
    });
    let flows = options.load.map_or(Vec::new(), |time| {
        flows(farm, node, &ways, options, time, &mut note)
    });
    let dhcp = match dhcp {
        Ok(Ok(dhcp)) => dhcp,
        Ok(Err(e)) => {
            note("DHCP servers", &e);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let network = observe(keys())?;
    let mut extras = Vec::new();
    for link in &plan.links {
        extras.extend(offloads(&link.name));
    }
    Ok(Observation {
        schema: OBSERVATION.to_owned(),
        node: node.name.clone(),
        flaps: flaps(&before, &network),
        rp_drops: rp_drops().saturating_sub(drops),
        network,
        extras,
        paths,
        heard,
        arp,
        dhcp,
        flows,
        gaps,
    })
}

fn ways(farm: &Farm, node: &Node, plan: &NodePlan, options: &Options) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut nets: Vec<&str> = node
        .links
        .iter()
        .flat_map(|l| &l.nets)
        .map(|a| a.net.as_str())
        .collect();
    nets.sort_unstable();
    nets.dedup();
    for name in nets {
        let net = &farm.nets[name];
        let reached: BTreeMap<String, String> = match &net.wiring {
            Wiring::Direct(d) => hops(d, &node.name)
                .into_iter()
                .map(|h| (h.peer, h.link))
                .collect(),
            _ => {
                let own = node.address(name);
                let on =
                    |l: &&crate::plan::Planned| l.addresses.iter().any(|a| Some(a.addr()) == own);
                let device = plan
                    .links
                    .iter()
                    .find(on)
                    .map(|l| l.name.clone())
                    .unwrap_or_default();
                let others = farm
                    .nodes
                    .iter()
                    .filter(|n| n.name != node.name && n.address(name).is_some());
                others.map(|n| (n.name.clone(), device.clone())).collect()
            }
        };
        for (peer, link) in reached {
            let address = farm.node(&peer).and_then(|n| n.address(name));
            let wanted = options.peer.as_ref().is_none_or(|p| *p == peer);
            if let Some(IpAddr::V4(address)) = address.filter(|_| wanted && ways.len() < PATHS_MAX)
            {
                let direct = matches!(net.wiring, Wiring::Direct(_));
                ways.push(Way {
                    peer,
                    net: name.to_owned(),
                    address,
                    mtu: net.mtu,
                    link,
                    direct,
                });
            }
        }
    }
    ways
}

fn sending(plan: &NodePlan, seen: &Observed) -> Vec<beacon::On> {
    let planned = plan
        .links
        .iter()
        .filter(|l| !matches!(l.device, Device::Nic { bond: Some(_), .. }));
    let there = planned.filter_map(|l| seen.links.iter().find(|s| s.name == l.name));
    there
        .map(|s| beacon::On {
            index: s.index,
            name: s.name.clone(),
        })
        .collect()
}

fn paths(ways: &[Way]) -> std::io::Result<Vec<PathSeen>> {
    let ask = |size: fn(&Way) -> u32, count| {
        let asks = ways.iter().map(|w| echo::Ask {
            to: w.address,
            size: size(w),
            count,
        });
        echo::echo(&asks.collect::<Vec<_>>())
    };
    let small = ask(|_| SMALL, SMALL_COUNT)?;
    let mut full = ask(|w| w.mtu, FULL_COUNT)?;
    // All observers ask at once: what was lost then may be the burst's fault. It counts if it is lost again.
    for (i, way) in ways.iter().enumerate().filter(|(i, _)| small[*i] > 0) {
        if (1..FULL_COUNT).contains(&full[i]) {
            let again = echo::Ask {
                to: way.address,
                size: way.mtu,
                count: FULL_COUNT,
            };
            let answered = echo::echo(&[again])?;
            full[i] = full[i].max(answered[0]);
        }
    }
    let sizes = sizes(ways, &small);
    let path = |(i, way): (usize, &Way)| PathSeen {
        peer: way.peer.clone(),
        net: way.net.clone(),
        address: way.address.to_string(),
        link: route_link(way.address),
        small: (small[i], SMALL_COUNT),
        full: (full[i], FULL_COUNT),
        mtu: sizes.get(&i).cloned(),
    };
    Ok(ways.iter().enumerate().map(path).collect())
}

/// Packet sizes to all peers that answer, several at once: each takes a second and more if it fails.
fn sizes(ways: &[Way], small: &[u32]) -> BTreeMap<usize, crate::diagnose::MtuProbe> {
    let found = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..AT_ONCE.min(ways.len()) {
            s.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(way) = ways.get(i) else {
                        return;
                    };
                    if small[i] == 0 {
                        continue;
                    }
                    // A socket that cannot be made is no finding about the path.
                    if let Ok(Some(probe)) = size::probe(way.address, way.mtu)
                        && let Ok(mut found) = found.lock()
                    {
                        found.insert(i, probe);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_default()
}

fn route_link(to: Ipv4Addr) -> Option<String> {
    let text = run_ip(&["-j", "route", "get", &to.to_string()], None).ok()?;
    let routes: serde_json::Value = serde_json::from_str(&text).ok()?;
    routes[0]["dev"].as_str().map(str::to_owned)
}

/// Asks for the peers' addresses and for the own ones, in switched nets.
fn answers(
    farm: &Farm,
    node: &Node,
    plan: &NodePlan,
    seen: &Observed,
    ways: &[Way],
) -> std::io::Result<Vec<ArpAnswers>> {
    let mut asks = Vec::new();
    let mut heads = Vec::new();
    let mut add = |link: &str, from: Ipv4Addr, address: Ipv4Addr, owner: &str| {
        let Some((index, own)) = seen
            .links
            .iter()
            .find(|s| s.name == link)
            .and_then(|s| Some((s.index, s.mac?)))
        else {
            return;
        };
        asks.push(arp::Ask {
            index,
            own,
            from,
            address,
        });
        heads.push((link.to_owned(), address, owner.to_owned()));
    };
    for way in ways.iter().filter(|w| !w.direct) {
        if let Some(IpAddr::V4(own)) = node.address(&way.net) {
            add(&way.link, own, way.address, &way.peer);
        }
    }
    for link in &plan.links {
        for address in &link.addresses {
            let IpAddr::V4(address) = address.addr() else {
                continue;
            };
            let direct = farm.nets.values().any(|n| {
                matches!(n.wiring, Wiring::Direct(_)) && n.cidr.contains(&IpAddr::V4(address))
            });
            if !direct {
                add(&link.name, Ipv4Addr::UNSPECIFIED, address, &node.name);
            }
        }
    }
    let found = arp::ask(&asks)?;
    let all = heads
        .into_iter()
        .zip(found)
        .filter(|(_, macs)| !macs.is_empty());
    Ok(all
        .map(|((link, address, node), macs)| ArpAnswers {
            link,
            address: address.to_string(),
            node,
            macs,
        })
        .collect())
}

/// Under load: the peer that was asked for, or the node after this one, in every net; meanwhile others send here.
fn flows(
    farm: &Farm,
    node: &Node,
    ways: &[Way],
    options: &Options,
    time: Duration,
    note: &mut dyn FnMut(&str, &dyn std::fmt::Display),
) -> Vec<Flow> {
    let at = farm
        .nodes
        .iter()
        .position(|n| n.name == node.name)
        .unwrap_or(0);
    let ring = farm
        .nodes
        .iter()
        .cycle()
        .skip(at + 1)
        .take(farm.nodes.len());
    let next = ring
        .map(|n| &n.name)
        .find(|n| ways.iter().any(|w| w.peer == **n));
    let chosen: Vec<&Way> = match (&options.peer, next) {
        (Some(_), _) => ways.iter().collect(),
        (None, Some(next)) => ways.iter().filter(|w| w.peer == *next).collect(),
        (None, None) => Vec::new(),
    };
    let mut own: Vec<Ipv4Addr> = Vec::new();
    for net in chosen.iter().map(|w| &w.net) {
        if let Some(IpAddr::V4(address)) = node.address(net) {
            own.push(address);
        }
    }
    // Observers begin some seconds apart.
    let until = Instant::now() + LOAD_GRACE + time * chosen.len().max(1) as u32;
    std::thread::scope(|s| {
        let receivers: Vec<_> = own
            .iter()
            .map(|a| s.spawn(move || load::receive(*a, until)))
            .collect();
        let mut flows = Vec::new();
        for way in &chosen {
            match load::send(&way.peer, &way.net, way.address, time) {
                Some(flow) => flows.push(flow),
                None => note(
                    "load",
                    &format!("no observer receives at {} in {}", way.peer, way.net),
                ),
            }
        }
        for receiver in receivers {
            if let Ok(Err(e)) = receiver.join() {
                note("load of others", &e);
            }
        }
        flows
    })
}

/// DHCP servers that answer in the boot net, with the link of this node there.
fn dhcp_servers(
    farm: &Farm,
    node: &Node,
    seen: &Observed,
) -> std::io::Result<Vec<(String, IpAddr)>> {
    let link = farm.nets.values().find(|n| n.boot).and_then(|net| {
        let untagged =
            |l: &&crate::inventory::Link| l.nets.iter().any(|a| a.net == net.name && !a.tagged);
        node.links.iter().find(untagged)
    });
    let card = link.and_then(|l| seen.links.iter().find(|s| s.name == l.name));
    let Some((name, mac)) = card.and_then(|s| Some((&s.name, s.mac?))) else {
        return Ok(Vec::new());
    };
    let servers = dhcp::servers(name, mac)?;
    Ok(servers.into_iter().map(|s| (name.clone(), s)).collect())
}

fn flaps(before: &Observed, after: &Observed) -> Vec<(String, u64)> {
    let change = |s: &crate::observe::Seen| {
        let old = before.links.iter().find(|b| b.index == s.index)?;
        let times = s
            .counters
            .carrier_changes
            .saturating_sub(old.counters.carrier_changes);
        (times >= 2).then(|| (s.name.clone(), times))
    };
    after.links.iter().filter_map(change).collect()
}

/// KERNEL: /proc/net/netstat has names and values in pairs of lines.
fn rp_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let pair = lines
        .chunks(2)
        .find(|p| p.len() == 2 && p[0].starts_with("TcpExt:"));
    let value = pair.and_then(|p| {
        let at = p[0]
            .split_whitespace()
            .position(|w| w == "IPReversePathFilter")?;
        p[1].split_whitespace().nth(at)?.parse().ok()
    });
    value.unwrap_or(0)
}

fn offloads(link: &str) -> Option<LinkExtra> {
    let output = Command::new("ethtool").args(["-k", link]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lro = text
        .lines()
        .any(|l| l.trim().starts_with("large-receive-offload: on"));
    Some(LinkExtra {
        link: link.to_owned(),
        lro,
    })
}
