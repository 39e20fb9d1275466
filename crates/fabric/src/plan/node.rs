//! The wanted state of one node.

use crate::addr::{Mac, single};
use crate::inventory::{Direct, Farm, Kind, Link, Net, Node, Wiring};
use crate::topology::{hops, is_joint};
use ipnet::IpNet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The network of one node, in the order in which it is set up: cards, bonds, VLANs; then routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodePlan {
    pub node: String,
    pub links: Vec<Planned>,
    pub routes: Vec<Route>,
    /// Below /proc/sys, with slashes: names of VLANs have dots.
    pub sysctls: BTreeMap<String, String>,
}

/// A link with its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    pub name: String,
    #[serde(flatten)]
    pub device: Device,
    /// Bytes.
    pub mtu: u32,
    pub addresses: Vec<IpNet>,
}

/// What a link is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Device {
    Nic {
        mac: Option<Mac>,
        /// The bond that it is in.
        bond: Option<String>,
    },
    Bond {
        /// Of its first member, if that is known: else each system gives it another one by its own rules.
        mac: Option<Mac>,
        of: Vec<String>,
        mode: &'static str,
        miimon_ms: u32,
        lacp_fast: bool,
        hash: String,
    },
    Vlan {
        below: String,
        id: u16,
    },
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Route {
    pub to: IpNet,
    pub via: Option<IpAddr>,
    pub link: String,
    /// The own address that packets have.
    pub from: Option<IpAddr>,
}

/// The network that a node should have. Names of links that no file fixed by an address are the kernel's own.
pub fn plan(farm: &Farm, node: &Node) -> NodePlan {
    let mut links = Vec::new();
    let (nics, bonds): (Vec<&Link>, Vec<&Link>) = node
        .links
        .iter()
        .partition(|l| matches!(l.kind, Kind::Nic { .. }));
    for link in &nics {
        let bond = bonds
            .iter()
            .find(|b| matches!(&b.kind, Kind::Bond(b) if b.of.contains(&link.name)));
        let mac = match link.kind {
            Kind::Nic { mac } => mac,
            Kind::Bond(_) => None,
        };
        let device = Device::Nic {
            mac,
            bond: bond.map(|b| b.name.clone()),
        };
        links.push(planned(farm, link, device));
    }
    for link in &bonds {
        let Kind::Bond(bond) = &link.kind else {
            continue;
        };
        let first = bond.of.first().and_then(|m| node.link(m));
        let device = Device::Bond {
            mac: first.and_then(|l| match l.kind {
                Kind::Nic { mac } => mac,
                Kind::Bond(_) => None,
            }),
            of: bond.of.clone(),
            mode: bond.mode.word(),
            miimon_ms: bond.miimon_ms,
            lacp_fast: bond.lacp_fast,
            hash: bond.hash.clone(),
        };
        links.push(planned(farm, link, device));
    }
    for link in &node.links {
        links.extend(vlans(farm, link));
    }
    NodePlan {
        node: node.name.clone(),
        routes: routes(farm, node),
        sysctls: sysctls(farm, node, &links),
        links,
    }
}

fn planned(farm: &Farm, link: &Link, device: Device) -> Planned {
    let untagged = link.nets.iter().filter(|a| !a.tagged);
    Planned {
        name: link.name.clone(),
        device,
        mtu: link.mtu,
        addresses: untagged
            .map(|a| in_net(&farm.nets[&a.net], a.address))
            .collect(),
    }
}

/// An address with its net's length; on direct cables alone, since the others of the net are behind several of them.
fn in_net(net: &Net, address: IpAddr) -> IpNet {
    match net.wiring {
        Wiring::Direct(_) => single(address),
        _ => IpNet::new(address, net.cidr.prefix_len()).unwrap_or_else(|_| single(address)),
    }
}

fn vlans(farm: &Farm, link: &Link) -> Vec<Planned> {
    let tagged = link.nets.iter().filter(|a| a.tagged);
    let vlan = |a: &crate::inventory::Attached| {
        let net = &farm.nets[&a.net];
        let id = net.vlan?;
        Some(Planned {
            name: vlan_name(&link.name, id),
            device: Device::Vlan {
                below: link.name.clone(),
                id,
            },
            mtu: net.mtu,
            addresses: vec![in_net(net, a.address)],
        })
    };
    tagged.filter_map(vlan).collect()
}

fn vlan_name(link: &str, id: u16) -> String {
    format!("{link}.{id}")
}

/// The device that carries a net's frames: the link, or the VLAN on it.
fn device_of(net: &Net, link: &Link) -> String {
    let tagged = link.nets.iter().any(|a| a.net == net.name && a.tagged);
    match (tagged, net.vlan) {
        (true, Some(id)) => vlan_name(&link.name, id),
        _ => link.name.clone(),
    }
}

fn routes(farm: &Farm, node: &Node) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut default = false;
    for link in &node.links {
        for attached in &link.nets {
            let net = &farm.nets[&attached.net];
            if let Wiring::Direct(direct) = &net.wiring {
                routes.extend(direct_routes(
                    farm,
                    node,
                    link,
                    net,
                    direct,
                    attached.address,
                ));
                continue;
            }
            let Some(gateway) = net.gateway.filter(|g| *g != attached.address && !default) else {
                continue;
            };
            default = true;
            let all = match gateway {
                IpAddr::V4(_) => IpNet::V4(Default::default()),
                IpAddr::V6(_) => IpNet::V6(Default::default()),
            };
            routes.push(Route {
                to: all,
                via: Some(gateway),
                link: device_of(net, link),
                from: None,
            });
        }
    }
    routes
}

/// PAPER(openmosix-topology, testbed.toml): `route add -host 192.168.1.X dev ethY` for each node at a cable, and one more
/// by the server for each that it forwards to.
fn direct_routes(
    farm: &Farm,
    node: &Node,
    link: &Link,
    net: &Net,
    direct: &Direct,
    from: IpAddr,
) -> Vec<Route> {
    let address = |name: &str| farm.node(name).and_then(|n| n.address(&net.name));
    let own = hops(direct, &node.name)
        .into_iter()
        .filter(|h| h.link == link.name);
    let route = |hop: crate::topology::Hop| {
        Some(Route {
            to: single(address(&hop.peer)?),
            via: match &hop.through {
                Some(through) => Some(address(through)?),
                None => None,
            },
            link: device_of(net, link),
            from: Some(from),
        })
    };
    own.filter_map(route).collect()
}

fn sysctls(farm: &Farm, node: &Node, links: &[Planned]) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    let mut set = |key: String, value: &str| {
        wanted.insert(key, value.to_owned());
    };
    let direct = |l: &&Link| {
        l.nets
            .iter()
            .any(|a| matches!(farm.nets[&a.net].wiring, Wiring::Direct(_)))
    };
    for net in node
        .links
        .iter()
        .flat_map(|l| &l.nets)
        .map(|a| &farm.nets[&a.net])
    {
        if let Wiring::Direct(d) = &net.wiring
            && is_joint(d, &node.name)
        {
            let family = if net.cidr.network().is_ipv4() {
                "ipv4/ip_forward"
            } else {
                "ipv6/conf/all/forwarding"
            };
            set(format!("net/{family}"), "1");
        }
    }
    // KERNEL: ip-sysctl: the larger of `all` and the link's own counts. Loose, since a peer may answer on another cable.
    for link in node.links.iter().filter(direct) {
        set(format!("net/ipv4/conf/{}/rp_filter", link.name), "2");
    }
    // KERNEL: ip-sysctl, arp_ignore: with several links in switched nets each answers for its own address only.
    let addressed: Vec<&Planned> = links.iter().filter(|l| !l.addresses.is_empty()).collect();
    if addressed.len() > 1 && node.links.iter().filter(direct).count() == 0 {
        for link in addressed {
            set(format!("net/ipv4/conf/{}/arp_ignore", link.name), "1");
            set(format!("net/ipv4/conf/{}/arp_announce", link.name), "2");
        }
    }
    wanted
}
