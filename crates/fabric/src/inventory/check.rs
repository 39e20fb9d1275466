//! Checks that need more than one line of the inventory, and the cables of P2P nets.

use super::farm::{Cable, Farm, Kind, Node, Port};
use super::links::Draft;
use super::macs::Macs;
use super::reader::{Source, Table};
use std::collections::{BTreeMap, BTreeSet};

/// A P2P net's cables as they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Wires {
    servers: Vec<String>,
    /// Ends as `node.link`.
    cables: Vec<Vec<String>>,
    joint: Option<String>,
    pub(super) forward: bool,
    line: usize,
}

impl Wires {
    pub(super) fn read(table: &Table) -> Wires {
        let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let cables = table.get("cables").and_then(|v| v.lists("cables"));
        Wires {
            servers: owned(table.texts("servers").unwrap_or_default()),
            cables: cables.unwrap_or_default().into_iter().map(owned).collect(),
            joint: table.text("joint").map(str::to_owned),
            forward: table.flag("forward"),
            line: table.line,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.cables.is_empty() && self.joint.is_none() && !self.forward
    }
}

/// The members of a bond: cards, of one bond only, in no net, able to carry its MTU.
pub(super) fn members(draft: &Draft, drafts: &[Draft], mtu: u32, complain: &dyn Fn(String, &str)) {
    let name = &draft.name;
    if let Some(max) = draft.mtu_max.filter(|max| *max < mtu) {
        complain(
            format!("{name} has MTU {mtu}, and its card can do {max} at most (mtu_max)"),
            "lower the MTU of the nets on it, or use another card",
        );
    }
    let Some(bond) = &draft.bond else {
        return;
    };
    let mut seen = BTreeSet::new();
    for member in &bond.of {
        if !seen.insert(member) {
            complain(
                format!("{name} names {member} twice"),
                "a bond needs different cards",
            );
        }
        let elsewhere = drafts
            .iter()
            .find(|d| d.name != *name && d.bond.as_ref().is_some_and(|b| b.of.contains(member)));
        if let Some(other) = elsewhere {
            complain(
                format!("{member} is in {name} and in {}", other.name),
                "take it out of one of them",
            );
        }
        let Some(own) = drafts.iter().find(|d| d.name == *member) else {
            continue;
        };
        if own.bond.is_some() {
            complain(
                format!("{name} has the bond {member} as a member"),
                "name its cards instead",
            );
        }
        if !own.nets.is_empty() {
            complain(
                format!("{member} is a member of {name} and in a net of its own"),
                "give the net to the bond",
            );
        }
        for least in [own.mtu, own.mtu_max]
            .into_iter()
            .flatten()
            .filter(|m| *m < mtu)
        {
            complain(
                format!("{name} has MTU {mtu}, above {least} of its member {member}"),
                &format!("raise the member to {mtu}, or lower the bond"),
            );
        }
    }
}

/// Gives cards their hardware addresses; each address is one card's.
pub(super) fn macs(nodes: &mut [Node], macs: &Macs, source: &Source) {
    let mut owners = BTreeMap::new();
    let index: BTreeMap<String, usize> = nodes
        .iter()
        .enumerate()
        .map(|(i, n)| (n.name.clone(), i))
        .collect();
    for ((node, link), known) in macs {
        let complain = |what: String, remedy: &str| match &known.file {
            Some(file) => source.complain_of(file, known.line, what, remedy),
            None => source.complain(known.line, what, remedy),
        };
        let port = format!("{node} {link}");
        if let Some(first) = owners.insert(known.mac, port.clone()) {
            complain(
                format!("{} is the address of {first} and of {port}", known.mac),
                "read both cards' labels; a cloned address breaks the switch's table",
            );
        }
        let Some(&i) = index.get(node) else {
            complain(
                format!("there is no node `{node}`"),
                "declare it, or remove the line",
            );
            continue;
        };
        match nodes[i].links.iter_mut().find(|l| l.name == *link) {
            Some(found) => match &mut found.kind {
                Kind::Nic { mac } => *mac = Some(known.mac),
                Kind::Bond(_) => complain(
                    format!("{port} is a bond"),
                    "name its cards' addresses instead",
                ),
            },
            None => {
                let names: Vec<&str> = nodes[i].links.iter().map(|l| l.name.as_str()).collect();
                complain(
                    format!("{node} has no link `{link}`"),
                    &format!("its links: {}", names.join(", ")),
                );
            }
        }
    }
}

/// Names, numbers and addresses are each one node's.
pub(super) fn unique(farm: &Farm, source: &Source) {
    let (mut names, mut numbers, mut addresses) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for node in &farm.nodes {
        let before = |n: &&Node| format!("{} of line {}", n.name, n.line);
        if let Some(other) = names.insert(&node.name, node) {
            source.complain(
                node.line,
                format!("the name {} is also on line {}", node.name, other.line),
                "names are unique in the farm",
            );
        }
        if let Some(other) = numbers.insert(node.number, node) {
            source.complain(
                node.line,
                format!(
                    "{} has number {}, as {}",
                    node.name,
                    node.number,
                    before(&other)
                ),
                "numbers are unique: choose another id or first_id",
            );
        }
        for attached in node.links.iter().flat_map(|l| &l.nets) {
            let net = &farm.nets[&attached.net];
            if net.gateway == Some(attached.address)
                && net.line != 0
                && node.root != super::farm::Root::Disk
            {
                source.complain(
                    node.line,
                    format!(
                        "{} has the address of the gateway of {}",
                        node.name, net.name
                    ),
                    "set the net's `first` behind it, or give the node another `address`",
                );
            }
            let owner = addresses.insert(attached.address, (node, &attached.net));
            // One address on all cards of a P2P server is what the papers do.
            if let Some((other, _)) =
                owner.filter(|(o, net)| o.number != node.number || **net != attached.net)
            {
                source.complain(
                    node.line,
                    format!(
                        "{} has address {}, as {}",
                        node.name,
                        attached.address,
                        before(&other)
                    ),
                    "change the net's `first`, a number or an `address`; nets may not overlap",
                );
            }
        }
        let mut in_net = BTreeMap::new();
        for link in &node.links {
            for attached in &link.nets {
                let direct = matches!(
                    farm.nets[&attached.net].wiring,
                    super::farm::Wiring::Direct(_)
                );
                if let Some(first) = in_net.insert(&attached.net, &link.name).filter(|_| !direct) {
                    source.complain(
                        link.line,
                        format!("{} has {first} and {} in the net {}", node.name, link.name, attached.net),
                        "two links in one switched net answer for each other's address (ARP flux): make them a bond",
                    );
                }
            }
        }
    }
}

/// Boot servers exist; nodes without a disk have a net to boot from.
pub(super) fn boot(farm: &Farm, line: usize, source: &Source) {
    for server in &farm.boot_servers {
        if farm.node(server).is_none() {
            source.complain(
                line,
                format!("there is no node `{server}` (boot_servers)"),
                "declare it as a node",
            );
        }
    }
    let booted = farm
        .nodes
        .iter()
        .filter(|n| n.root != super::farm::Root::Disk);
    let net = farm.nets.values().find(|n| n.boot);
    for node in booted {
        match net {
            None => {
                source.complain(
                    node.line,
                    format!("{} has no disk, and no net is for booting", node.name),
                    "add boot = true to a net",
                );
                return;
            }
            Some(net) => {
                let attached = node
                    .links
                    .iter()
                    .flat_map(|l| &l.nets)
                    .find(|a| a.net == net.name);
                let what = match attached {
                    None => format!(
                        "{} has no disk and is not in the net {} that nodes boot from",
                        node.name, net.name
                    ),
                    Some(a) if a.tagged => format!(
                        "{} boots from {}, whose frames are tagged: no firmware does that",
                        node.name, net.name
                    ),
                    Some(_) => continue,
                };
                source.complain(node.line, what, "give it an untagged card in that net");
            }
        }
    }
    if let Some(second) = farm.nets.values().filter(|n| n.boot).nth(1) {
        source.complain(
            second.line,
            "two nets are for booting",
            "keep boot = true at one",
        );
    }
}

/// The cables of a P2P net: those that are written, or one from each client to a port of its server.
pub(super) fn cables(farm: &Farm, net: &str, wires: &Wires, source: &Source) -> Vec<Cable> {
    let complain = |what: String, remedy: &str| source.complain(wires.line, what, remedy);
    let ports = |node: &Node| -> Vec<String> {
        let links = node
            .links
            .iter()
            .filter(|l| l.nets.iter().any(|a| a.net == net));
        links.map(|l| l.name.clone()).collect()
    };
    let members: Vec<&Node> = farm.nodes.iter().filter(|n| !ports(n).is_empty()).collect();
    let mut cables = Vec::new();
    for pair in &wires.cables {
        let ends: Vec<Port> = pair.iter().filter_map(|end| port(end)).collect();
        match <[Port; 2]>::try_from(ends) {
            Ok(ends) => cables.push(Cable { ends }),
            Err(_) => complain(
                format!("{pair:?} is no cable of net {net}"),
                "write [\"srv.lan0\", \"n1.lan0\"]",
            ),
        }
    }
    if wires.cables.is_empty() {
        cables = counted(&members, &ports, net, wires, &complain);
    }
    let mut used = BTreeSet::new();
    for end in cables.iter().flat_map(|c| &c.ends) {
        let there = members
            .iter()
            .any(|n| n.name == end.node && ports(n).contains(&end.link));
        if !there {
            complain(
                format!("{end} is no link in the net {net}"),
                "name a node and its link: srv.lan0",
            );
        } else if !used.insert(end) {
            complain(
                format!("two cables of net {net} end at {end}"),
                "a port takes one cable",
            );
        }
    }
    if wires.cables.is_empty() {
        return cables; // Missing ports are complained about above.
    }
    for node in members
        .iter()
        .filter(|n| !used.iter().any(|p| p.node == n.name))
    {
        source.complain(
            node.line,
            format!(
                "{} is in the P2P net {net} and no cable leads to it",
                node.name
            ),
            "add the cable from a port of its server",
        );
    }
    cables
}

fn port(text: &str) -> Option<Port> {
    let (node, link) = text.split_once('.')?;
    Some(Port {
        node: node.to_owned(),
        link: link.to_owned(),
    })
}

/// One cable from each client to the next port of its server; two servers share the clients and have a joint.
fn counted(
    members: &[&Node],
    ports: &dyn Fn(&Node) -> Vec<String>,
    net: &str,
    wires: &Wires,
    complain: &dyn Fn(String, &str),
) -> Vec<Cable> {
    let mut cables = Vec::new();
    let servers = &wires.servers;
    if !(1..=2).contains(&servers.len()) {
        complain(
            format!("the P2P net {net} has {} servers", servers.len()),
            "add servers = [\"srv\"], or two of them and a joint, or list the cables",
        );
        return cables;
    }
    let is_server = |n: &&&Node| servers.contains(&n.name);
    let clients: Vec<&&Node> = members.iter().filter(|n| !is_server(n)).collect();
    let share = clients.len().div_ceil(servers.len()).max(1);
    let joint = wires.joint.as_deref();
    for (i, name) in servers.iter().enumerate() {
        let Some(server) = members.iter().find(|n| n.name == *name) else {
            complain(
                format!("the server {name} is not in the net {net}"),
                "give it a link there for each client",
            );
            continue;
        };
        let mut free = ports(server)
            .into_iter()
            .filter(|p| Some(p.as_str()) != joint);
        let missing = clients.iter().skip(i * share).take(share).filter(|client| {
            let own = ports(client).into_iter().next().unwrap_or_default();
            let Some(link) = free.next() else {
                return true;
            };
            let end = |node: &str, link: String| Port {
                node: node.to_owned(),
                link,
            };
            cables.push(Cable {
                ends: [end(name, link), end(&client.name, own)],
            });
            false
        });
        let missing: Vec<&str> = missing.map(|c| c.name.as_str()).collect();
        if !missing.is_empty() {
            complain(
                format!(
                    "{name} has no port in the P2P net {net} for {}",
                    missing.join(", ")
                ),
                "give the server one more link for each, or let another server take them",
            );
        }
    }
    match (joint, servers.as_slice()) {
        (Some(link), [a, b]) => {
            let end = |node: &String| Port {
                node: node.clone(),
                link: link.to_owned(),
            };
            cables.push(Cable {
                ends: [end(a), end(b)],
            });
        }
        (None, [_, _]) => complain(
            format!("the two servers of net {net} are not joined"),
            "add joint = \"bond0\", a link of both in this net",
        ),
        (Some(_), _) => complain(
            format!("net {net} has a joint and one server"),
            "name the second in `servers`",
        ),
        (None, _) => {}
    }
    cables
}
