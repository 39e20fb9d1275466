//! A farm's inventory as a lab: the nodes, addresses and cables that a lab can imitate, and in words what it cannot.
//!
//! From: `lab/src/cmd/up.rs`. Pure; the file is read there.

use super::{Link, Spec};
use anyhow::{Result, bail};
use armento_fabric::inventory::{Direct, Farm, Kind, Net, Node, Root, Wiring};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Rates of nets that do not say theirs, Mbit/s.
const SWITCH_MBIT: u32 = 1000;
const HUB_MBIT: u32 = 10;
const P2P_MBIT: u32 = 100;
const MBIT: u64 = 1_000_000;
/// Nodes that a line about a difference names; more are counted.
const NAMED_MAX: usize = 6;

/// A node by its name and its addresses in the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    pub addr: String,
    pub prefix: u8,
    pub second: Option<(String, u8)>,
}

/// What the lab is like, and where it differs from the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imitated {
    pub places: Vec<Place>,
    pub link: Link,
    pub second_link: bool,
    pub mtu: u32,
    pub losses: Vec<String>,
}

impl Imitated {
    /// `spec` with these nodes and this network.
    pub fn of(self, spec: Spec) -> Spec {
        Spec {
            nodes: self.places.len(),
            places: self.places,
            link: self.link,
            second_link: self.second_link,
            mtu: self.mtu,
            ..spec
        }
    }
}

/// The lab that is most like the farm. `main`: the net of the nodes' first cards; else the farm's main net.
pub fn imitate(farm: &Farm, main: Option<&str>) -> Result<Imitated> {
    let first = match main {
        Some(name) => farm.nets.get(name),
        None => farm.main_net(),
    };
    let Some(first) = first else {
        let names: Vec<&str> = farm.nets.keys().map(String::as_str).collect();
        bail!(
            "the inventory has no net for the lab's first cards\nhint: name one with --net: {}",
            names.join(", ")
        );
    };
    let inside = |net: &Net| -> Vec<&Node> {
        let nodes = farm.nodes.iter();
        nodes.filter(|n| n.address(&net.name).is_some()).collect()
    };
    let mut nodes = inside(first);
    let mut losses = Vec::new();
    let outside: Vec<&str> = farm
        .nodes
        .iter()
        .filter(|n| n.address(&first.name).is_none())
        .map(|n| n.name.as_str())
        .collect();
    if !outside.is_empty() {
        losses.push(format!(
            "{} are not in the net {}, and are left out",
            named(&outside),
            first.name
        ));
    }
    let link = match &first.wiring {
        Wiring::Switch => Link::Switch {
            bits: bits(first, SWITCH_MBIT),
        },
        Wiring::Hub => Link::Hub {
            bits: bits(first, HUB_MBIT),
        },
        Wiring::Direct(direct) => wired(first, direct, &mut nodes, &mut losses)?,
    };
    let second = (!link.direct())
        .then(|| second_net(farm, first, &nodes))
        .flatten();
    let places: Result<Vec<Place>> = nodes.iter().map(|n| place(n, first, second)).collect();
    losses.extend(nets(farm, first, second, &nodes));
    losses.extend(machines(&nodes));
    Ok(Imitated {
        places: places?,
        link,
        second_link: second.is_some(),
        mtu: first.mtu,
        losses,
    })
}

fn bits(net: &Net, usual: u32) -> u64 {
    u64::from(net.mbit.unwrap_or(usual)) * MBIT
}

fn named(names: &[&str]) -> String {
    match names.len() {
        n if n > NAMED_MAX => format!(
            "{} and {} more",
            names[..NAMED_MAX].join(", "),
            n - NAMED_MAX
        ),
        _ => names.join(", "),
    }
}

fn place(node: &Node, first: &Net, second: Option<&Net>) -> Result<Place> {
    let of = |net: &Net| -> Result<(String, u8)> {
        match node.address(&net.name) {
            Some(addr @ IpAddr::V4(_)) => Ok((addr.to_string(), net.cidr.prefix_len())),
            _ => bail!(
                "{} has no IPv4 address in the net {}, and labs have no others\nhint: name another net with --net",
                node.name,
                net.name
            ),
        }
    };
    let (addr, prefix) = of(first)?;
    Ok(Place {
        name: node.name.clone(),
        addr,
        prefix,
        second: second.map(of).transpose()?,
    })
}

/// Another switched net that all of these are in: the lab's second network is like the first.
fn second_net<'a>(farm: &'a Farm, first: &Net, nodes: &[&Node]) -> Option<&'a Net> {
    let all_in = |net: &&Net| {
        nodes
            .iter()
            .all(|n| matches!(n.address(&net.name), Some(IpAddr::V4(_))))
    };
    let others = farm.nets.values().filter(|net| net.name != first.name);
    let alike = |net: &&Net| net.wiring == first.wiring;
    others.filter(alike).find(all_in)
}

/// The lab's direct links that have these cables, and the nodes in the order in which the lab has them.
fn wired(
    net: &Net,
    direct: &Direct,
    nodes: &mut Vec<&Node>,
    losses: &mut Vec<String>,
) -> Result<Link> {
    let rate = bits(net, P2P_MBIT);
    let partners = |node: &Node| -> BTreeSet<&str> {
        let cables = direct.cables.iter().map(|c| &c.ends);
        cables
            .filter_map(|[a, b]| match (a.node == node.name, b.node == node.name) {
                (true, _) => Some(b.node.as_str()),
                (_, true) => Some(a.node.as_str()),
                _ => None,
            })
            .collect()
    };
    let servers: Vec<&Node> = match nodes.as_slice() {
        // Of two nodes each has one cable.
        [first, _] => vec![first],
        all => all
            .iter()
            .filter(|n| partners(n).len() > 1)
            .copied()
            .collect(),
    };
    let clients = |server: &Node| -> Vec<&Node> {
        let theirs = partners(server);
        let is_client = |n: &&&Node| {
            theirs.contains(n.name.as_str()) && !servers.iter().any(|s| s.name == n.name)
        };
        nodes.iter().filter(is_client).copied().collect()
    };
    let (link, order) = match servers.as_slice() {
        [server] => {
            let theirs = clients(server);
            let link = Link::P2p {
                bits: rate,
                server: 1,
            };
            (link, [vec![*server], theirs].concat())
        }
        [a, b] if partners(a).contains(b.name.as_str()) => {
            let (of_a, of_b) = (clients(a), clients(b));
            // The lab gives the first of two servers as many nodes as the second, or one more.
            let (a, of_a, b, of_b) = match of_a.len() < of_b.len() {
                true => (b, of_b, a, of_a),
                false => (a, of_a, b, of_b),
            };
            if of_a.len() > of_b.len() + 1 {
                bail!(
                    "{} has {} nodes and {} has {}: the two halves of a lab are equal, or differ by one\nhint: change `cables` in a copy of the file, or name another net with --net",
                    a.name,
                    of_a.len(),
                    b.name,
                    of_b.len()
                );
            }
            let link = Link::TwoP2p {
                bits: rate,
                joint: 10 * rate,
            };
            losses.push(format!(
                "the cable between {} and {} has ten times the rate of the others",
                a.name, b.name
            ));
            (link, [vec![*a], of_a, vec![*b], of_b].concat())
        }
        others => {
            let names: Vec<&str> = others.iter().map(|n| n.name.as_str()).collect();
            bail!(
                "the cables of the net {} are not those of one server, or of two that are joined: {} have several\nhint: labs have no other direct links; name another net with --net",
                net.name,
                named(&names)
            );
        }
    };
    if order.len() != nodes.len() {
        bail!(
            "some nodes of the net {} have no cable to its server\nhint: labs have one cable from the server to each other node; name another net with --net",
            net.name
        );
    }
    let doubled = nodes.iter().any(|n| {
        let ends = direct.cables.iter().flat_map(|c| &c.ends);
        ends.filter(|e| e.node == n.name).count() > partners(n).len()
    });
    if doubled {
        losses.push("several cables between the same two nodes are one".into());
    }
    if direct.forward {
        losses.push(format!(
            "nodes of the net {} do not reach each other through their server (forward)",
            net.name
        ));
    }
    *nodes = order;
    Ok(link)
}

/// What is lost of the nets.
fn nets(farm: &Farm, first: &Net, second: Option<&Net>, nodes: &[&Node]) -> Vec<String> {
    let mut losses = Vec::new();
    for net in farm.nets.values() {
        let is_second = second.is_some_and(|s| s.name == net.name);
        let used = nodes.iter().any(|n| n.address(&net.name).is_some());
        if net.name != first.name && !is_second {
            if used {
                losses.push(format!(
                    "the net {} is not there: a lab has one network, or two of the same kind that all nodes are in",
                    net.name
                ));
            }
            continue;
        }
        if let Some(vlan) = net.vlan {
            losses.push(format!(
                "the net {} is a network of its own, without the tags of VLAN {vlan}",
                net.name
            ));
        }
        if let Some(gateway) = net.gateway {
            losses.push(format!(
                "the gateway {gateway} of the net {} is not there",
                net.name
            ));
        }
        if is_second && net.mtu != first.mtu {
            losses.push(format!(
                "the net {} has the MTU of {}, {}, instead of {}",
                net.name, first.name, first.mtu, net.mtu
            ));
        }
        if is_second && net.mbit != first.mbit {
            losses.push(format!(
                "the net {} has the rate of {}",
                net.name, first.name
            ));
        }
    }
    losses
}

/// What is lost of the machines.
fn machines(nodes: &[&Node]) -> Vec<String> {
    let mut losses = Vec::new();
    let bonded: BTreeSet<String> = nodes
        .iter()
        .flat_map(|n| n.links.iter().map(move |l| (n, l)))
        .filter(|(_, l)| matches!(l.kind, Kind::Bond(_)) && !l.nets.is_empty())
        .map(|(n, l)| format!("{}.{}", n.name, l.name))
        .collect();
    if !bonded.is_empty() {
        let names: Vec<&str> = bonded.iter().map(String::as_str).collect();
        losses.push(format!("bonds are one card each: {}", named(&names)));
    }
    let booted: Vec<&str> = nodes
        .iter()
        .filter(|n| n.root != Root::Disk)
        .map(|n| n.name.as_str())
        .collect();
    if !booted.is_empty() {
        losses.push(format!(
            "nodes without a disk do not boot, they have this machine's files: {}",
            named(&booted)
        ));
    }
    losses.push(
        "cards are called eth0, eth1 and so on, and have hardware addresses of the lab".into(),
    );
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn farm(text: &str) -> Farm {
        let open = |_: &str| Err("no such file".to_owned());
        armento_fabric::inventory::parse("farm.toml", text, &open).expect("an inventory")
    }

    fn addresses(lab: &Imitated) -> Vec<(&str, &str)> {
        let each = lab.places.iter();
        each.map(|p| (p.name.as_str(), p.addr.as_str())).collect()
    }

    #[test]
    fn nodes_keep_names_addresses_and_both_networks() {
        let lab = imitate(
            &farm(
                "farm = { name = \"x\" }
net.mgmt = { cidr = \"192.168.3.0/25\", boot = true }
net.app = { cidr = \"192.168.4.0/24\", vlan = 4, mtu = 9000 }
profile.p = { lan0 = \"mgmt\", bond0 = { of = [\"lan1\", \"lan2\"], net = \"app\" } }
node.srv = { id = 1, profile = \"p\" }
node.\"n[02-03]\" = { first_id = 2, profile = \"p\" }
",
            ),
            None,
        )
        .expect("a lab");
        let want = [
            ("srv", "192.168.3.1"),
            ("n02", "192.168.3.2"),
            ("n03", "192.168.3.3"),
        ];
        assert_eq!(addresses(&lab), want);
        assert_eq!(lab.places[1].prefix, 25);
        assert_eq!(lab.places[1].second, Some(("192.168.4.2".into(), 24)));
        assert_eq!((lab.mtu, lab.second_link), (1500, true));
        let said = lab.losses.join("\n");
        for words in [
            "without the tags of VLAN 4",
            "has the MTU of mgmt, 1500, instead of 9000",
            "bonds are one card each: n02.bond0, n03.bond0, srv.bond0",
            "cards are called eth0",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    const P2P: &str = "farm = { name = \"x\" }
net.lan = { cidr = \"10.1.0.0/24\", mtu = 9000, mbit = 1000, topology = \"p2p\", cables = CABLES }
node.a = { id = 1, l0 = \"lan\", l1 = \"lan\", l2 = \"lan\" }
node.b = { id = 2, l0 = \"lan\", l1 = \"lan\", l2 = \"lan\" }
node.\"c[1-2]\" = { first_id = 3, l0 = \"lan\" }
";

    #[test]
    fn direct_cables_have_one_server_or_two() {
        let one = "[[\"b.l0\", \"a.l0\"], [\"b.l1\", \"c1.l0\"], [\"b.l2\", \"c2.l0\"]]";
        let lab = imitate(&farm(&P2P.replace("CABLES", one)), None).expect("a lab");
        let names: Vec<&str> = lab.places.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c1", "c2"], "the server is first");
        let bits = 1000 * MBIT;
        assert_eq!((lab.link, lab.mtu), (Link::P2p { bits, server: 1 }, 9000));

        let two = "[[\"a.l0\", \"b.l0\"], [\"a.l1\", \"c2.l0\"], [\"b.l1\", \"c1.l0\"]]";
        let lab = imitate(&farm(&P2P.replace("CABLES", two)), None).expect("a lab");
        let names: Vec<&str> = lab.places.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "c2", "b", "c1"]);
        assert!(matches!(lab.link, Link::TwoP2p { .. }));

        let ring = "[[\"a.l0\", \"b.l0\"], [\"b.l1\", \"c1.l0\"], [\"a.l1\", \"c2.l0\"], [\"a.l2\", \"c1.l1\"]]";
        let text = P2P.replace("CABLES", ring).replace(
            "node.\"c[1-2]\" = { first_id = 3, l0 = \"lan\" }",
            "node.\"c[1-2]\" = { first_id = 3, l0 = \"lan\", l1 = \"lan\" }",
        );
        let no = imitate(&farm(&text), None).expect_err("no lab has these");
        assert!(no.to_string().contains("\nhint: "), "{no}");
    }

    #[test]
    fn nodes_outside_the_main_net_are_named() {
        let text = "farm = { name = \"x\" }
net.lan = { cidr = \"10.1.0.0/24\", topology = \"hub\" }
net.far = { cidr = \"10.2.0.0/24\" }
node.a = { id = 1, l0 = \"lan\" }
node.b = { id = 2, l0 = \"lan\", l1 = \"far\" }
node.c = { id = 3, l1 = \"far\" }
";
        let lab = imitate(&farm(text), Some("lan")).expect("a lab");
        assert_eq!(addresses(&lab), [("a", "10.1.0.1"), ("b", "10.1.0.2")]);
        let bits = 10 * MBIT;
        assert_eq!((lab.link, lab.second_link), (Link::Hub { bits }, false));
        let said = lab.losses.join("\n");
        assert!(
            said.contains("c are not in the net lan, and are left out"),
            "{said}"
        );
        assert!(said.contains("the net far is not there"), "{said}");
        assert!(imitate(&farm(text), Some("none")).is_err());
    }
}
