//! From the text of an inventory to a [`Farm`].

use super::check;
use super::farm::{Attached, Direct, Farm, Kind, Link, Net, Node, Wiring};
use super::links::{self, Draft, MTU, Profile};
use super::macs::{self, Macs, Open};
use super::names::expand;
use super::problem::{Problem, Problems};
use super::reader::{Source, Table};
use super::{FILE_MAX, NODES_MAX};
use crate::addr::{is_host, nth};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use toml::de::DeTable;

/// Reads and checks an inventory. `file` is its name in messages; `open` opens the files that it names (macs.csv),
/// relative to it.
///
/// Errors: everything that is wrong, with lines and remedies; nothing is used of an inventory that has any.
pub fn parse(file: &str, text: &str, open: Open) -> Result<Farm, Problems> {
    let source = Source::new(file, text);
    let one = |line, what: String, remedy: &str| {
        let problem = Problem {
            file: file.to_owned(),
            line,
            what,
            remedy: remedy.to_owned(),
        };
        Problems(vec![problem])
    };
    if text.len() > FILE_MAX {
        let what = format!("more than {} MiB", FILE_MAX >> 20);
        return Err(one(
            0,
            what,
            "is this the inventory? Ranges keep it small: node.\"n[01-16]\"",
        ));
    }
    let root = DeTable::parse(text).map_err(|e| {
        let line = source.line(e.span().map_or(text.len(), |s| s.start));
        let remedy = "the line is no TOML, or the file ends too early: was it copied whole?";
        one(line, e.message().to_owned(), remedy)
    })?;
    let root = Table::new(root.get_ref(), 1, &source, "the inventory");
    let farm = read(&root, open);
    root.finish();
    let problems = source.problems();
    match (farm, problems.is_empty()) {
        (Some(farm), true) => Ok(farm),
        (None, true) => Err(one(
            0,
            "the farm has no node".into(),
            "add node.NAME = { id = 1, … }",
        )),
        (_, false) => Err(Problems(problems)),
    }
}

fn read(root: &Table, open: Open) -> Option<Farm> {
    let head = root.table("farm");
    let (name, boot_servers) = match &head {
        Some(head) => {
            let name = head.text("name").unwrap_or("farm").to_owned();
            let servers = head.texts("boot_servers").unwrap_or_default();
            head.finish();
            (name, servers.into_iter().map(str::to_owned).collect())
        }
        None => ("farm".to_owned(), Vec::new()),
    };
    let mut wirings = BTreeMap::new();
    let nets = nets(root, &mut wirings);
    let profiles = profiles(root);
    let mut macs = Macs::new();
    let mut nodes = nodes(root, &nets, &profiles, &mut macs, open);
    nodes.sort_by_key(|n| n.number);
    check::macs(&mut nodes, &macs, root.source);
    let mut farm = Farm {
        name,
        boot_servers,
        nets,
        nodes,
    };
    check::unique(&farm, root.source);
    check::boot(&farm, head.as_ref().map_or(1, |h| h.line), root.source);
    for (net, wiring) in &wirings {
        let cables = check::cables(&farm, net, wiring, root.source);
        if let Some(net) = farm.nets.get_mut(net) {
            net.wiring = Wiring::Direct(Direct {
                cables,
                forward: wiring.forward,
            });
        }
    }
    (!farm.nodes.is_empty()).then_some(farm)
}

fn nets(root: &Table, wirings: &mut BTreeMap<String, check::Wires>) -> BTreeMap<String, Net> {
    let mut nets = BTreeMap::new();
    let Some(all) = root.table("net") else {
        return nets;
    };
    for (name, value) in all.others() {
        let Some(table) = value.table(&format!("net.{name}")) else {
            value.wrong(name, "a table");
            continue;
        };
        if let Some(net) = net(name, &table, wirings) {
            nets.insert(name.to_owned(), net);
        }
    }
    nets
}

fn net(name: &str, table: &Table, wirings: &mut BTreeMap<String, check::Wires>) -> Option<Net> {
    let complain = |what: String, remedy: &str| table.source.complain(table.line, what, remedy);
    if table.get("cidr").is_none() {
        complain(
            format!("{} has no addresses", table.what),
            "add cidr = \"192.168.3.0/24\"",
        );
    }
    let cidr: Option<IpNet> = table.parsed("cidr", "a network such as \"192.168.3.0/24\"");
    let first: Option<IpAddr> = table.parsed("first", "an address");
    let gateway: Option<IpAddr> = table.parsed("gateway", "an address");
    let vlan = table.number("vlan", 1, 4094);
    let mtu = table.number("mtu", MTU.0, MTU.1).unwrap_or(1500);
    let boot = table.flag("boot");
    let mbit = table.number("mbit", 1, 1_000_000);
    let wires = check::Wires::read(table);
    let kind = table.text("topology").unwrap_or("switch");
    table.finish();
    let wiring = match kind {
        "switch" => Wiring::Switch,
        "hub" => Wiring::Hub,
        "p2p" => Wiring::Direct(Direct {
            cables: Vec::new(),
            forward: wires.forward,
        }),
        other => {
            complain(
                format!("`{other}` is no topology"),
                "switch, hub or p2p (two servers and a joint: joined farms)",
            );
            Wiring::Switch
        }
    };
    match wiring {
        Wiring::Direct(_) => {
            wirings.insert(name.to_owned(), wires);
        }
        _ if !wires.is_empty() => complain(
            format!("{} has cables of a P2P net", table.what),
            "add topology = \"p2p\", or leave servers, cables, joint and forward out",
        ),
        _ => {}
    }
    let cidr = cidr?;
    if cidr.network() != cidr.addr() {
        let what = format!("{cidr} is an address, not a network");
        complain(what, &format!("write cidr = \"{}\"", cidr.trunc()));
    }
    let first = first
        .or_else(|| nth(cidr, cidr.network(), 1))
        .unwrap_or(cidr.network());
    for addr in [Some(first), gateway].into_iter().flatten() {
        if !is_host(cidr, addr) {
            complain(
                format!("{addr} is no host's address in {cidr}"),
                "choose one between its ends",
            );
        }
    }
    Some(Net {
        name: name.to_owned(),
        cidr: cidr.trunc(),
        first,
        vlan: vlan.and_then(|v| v.try_into().ok()),
        mtu,
        gateway,
        boot,
        mbit,
        wiring,
        line: table.line,
    })
}

fn profiles(root: &Table) -> BTreeMap<String, Profile> {
    let mut profiles = BTreeMap::new();
    for (name, value) in root.table("profile").iter().flat_map(Table::others) {
        match value.table(&format!("profile.{name}")) {
            Some(table) => {
                profiles.insert(name.to_owned(), links::profile(&table));
            }
            None => value.wrong(name, "a table"),
        }
    }
    profiles
}

fn nodes(
    root: &Table,
    nets: &BTreeMap<String, Net>,
    profiles: &BTreeMap<String, Profile>,
    macs: &mut Macs,
    open: Open,
) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut files = BTreeSet::new();
    let Some(all) = root.table("node") else {
        return nodes;
    };
    for (range, value) in all.others() {
        let complain = |what: String, remedy: &str| root.source.complain(value.line, what, remedy);
        let Some(table) = value.table(&format!("node.{range}")) else {
            value.wrong(range, "a table");
            continue;
        };
        let names = match expand(range, NODES_MAX) {
            Ok(names) => names,
            Err(what) => {
                complain(what, "name nodes as srv or n[01-16]");
                continue;
            }
        };
        let single = names.len() == 1;
        let id = table.number("id", 1, NODES_MAX as u32);
        let first_id = table.number("first_id", 1, NODES_MAX as u32);
        let profile = table.text("profile");
        if let Some(file) = table.text("macs").filter(|f| files.insert(f.to_string())) {
            match open(file) {
                Ok(text) => macs::csv(root.source, file, &text, macs),
                Err(e) => complain(
                    format!("cannot read {file}: {e}"),
                    "its place is relative to the inventory",
                ),
            }
        }
        for (key, one) in [
            ("id", id.is_some()),
            ("mac", table.get("mac").is_some()),
            ("address", table.get("address").is_some()),
        ] {
            if one && !single {
                complain(
                    format!(
                        "`{key}` of {range} would be the same for {} nodes",
                        names.len()
                    ),
                    "use first_id, macs, or name the node alone",
                );
            }
        }
        if let Some(table) = table.table("mac").filter(|_| single) {
            macs::inline(&names[0], &table, macs);
        }
        let addresses = table
            .table("address")
            .map(|t| addresses(&t, nets))
            .unwrap_or_default();
        let Some(first) = id.or(first_id) else {
            complain(
                format!("{range} has no number"),
                "add id = 1, or first_id = 1 for a range",
            );
            continue;
        };
        let base = match profile.map(|p| (p, profiles.get(p))) {
            None => Profile::default(),
            Some((_, Some(found))) => found.clone(),
            Some((name, None)) => {
                let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
                complain(
                    format!("there is no profile `{name}`"),
                    &format!("profiles: {}", list(&known)),
                );
                continue;
            }
        };
        let own = links::profile(&table);
        let drafts = merged(base.links, own.links);
        let root_kind = if table.get("root").is_some() {
            own.root
        } else {
            base.root
        };
        let slots = own.slots.or(base.slots).unwrap_or(1);
        let image = own.image.or(base.image);
        let persist = own.persist.or(base.persist).unwrap_or_default();
        for (i, name) in names.into_iter().enumerate() {
            let Ok(number) = u16::try_from(first as usize + i) else {
                complain(
                    format!("the numbers of {range} go beyond {NODES_MAX}"),
                    "choose a smaller first_id",
                );
                break;
            };
            let mut node = Node {
                name,
                number,
                root: root_kind,
                image: image.clone(),
                persist: persist.clone(),
                links: Vec::new(),
                slots,
                line: value.line,
            };
            // Mistakes in drafts would be the same for each name of a range.
            let quiet = i > 0;
            for draft in &drafts {
                node.links.extend(link(
                    draft,
                    &drafts,
                    number,
                    &addresses,
                    nets,
                    root.source,
                    quiet,
                ));
            }
            add_members(&mut node.links, &drafts);
            nodes.push(node);
            if nodes.len() > NODES_MAX {
                complain(format!("more than {NODES_MAX} nodes"), "divide the farm");
                return nodes;
            }
        }
    }
    nodes
}

/// The profile's links, replaced by the node's own of the same name.
fn merged(base: Vec<Draft>, own: Vec<Draft>) -> Vec<Draft> {
    let mut all: Vec<Draft> = base;
    for draft in own {
        match all.iter_mut().find(|d| d.name == draft.name) {
            Some(same) => *same = draft,
            None => all.push(draft),
        }
    }
    all
}

fn list(names: &[&str]) -> String {
    match names.is_empty() {
        true => "none is declared".to_owned(),
        false => names.join(", "),
    }
}

fn addresses(table: &Table, nets: &BTreeMap<String, Net>) -> BTreeMap<String, IpAddr> {
    let mut found = BTreeMap::new();
    for (net, value) in table.others() {
        let Some(text) = value.text(net) else {
            continue;
        };
        match (nets.get(net), text.parse::<IpAddr>()) {
            (Some(n), Ok(addr)) if is_host(n.cidr, addr) => {
                found.insert(net.to_owned(), addr);
            }
            (Some(n), Ok(addr)) => {
                let what = format!("{addr} is no host's address in {} ({net})", n.cidr);
                table
                    .source
                    .complain(value.line, what, "choose one between its ends");
            }
            (Some(_), Err(_)) => value.wrong(net, "an address"),
            (None, _) => {
                let known: Vec<&str> = nets.keys().map(String::as_str).collect();
                let what = format!("there is no net `{net}`");
                table
                    .source
                    .complain(value.line, what, format!("nets: {}", list(&known)));
            }
        }
    }
    found
}

fn link(
    draft: &Draft,
    drafts: &[Draft],
    number: u16,
    addresses: &BTreeMap<String, IpAddr>,
    nets: &BTreeMap<String, Net>,
    source: &Source,
    quiet: bool,
) -> Option<Link> {
    let complain = |what: String, remedy: &str| {
        if !quiet {
            source.complain(draft.line, what, remedy);
        }
    };
    let mut attached = Vec::new();
    let mut mtu = draft.mtu;
    for name in &draft.nets {
        let Some(net) = nets.get(name) else {
            let known: Vec<&str> = nets.keys().map(String::as_str).collect();
            complain(
                format!("there is no net `{name}`"),
                &format!("nets: {}", list(&known)),
            );
            continue;
        };
        let counted = || nth(net.cidr, net.first, u32::from(number) - 1);
        let Some(address) = addresses.get(name).copied().or_else(counted) else {
            // Not hidden by `quiet`: only the later nodes of a range go beyond the net.
            source.complain(
                draft.line,
                format!("{} has no address for node number {number}", net.cidr),
                format!("enlarge net.{name}, set its `first`, or give the node an `address`"),
            );
            continue;
        };
        if let Some(own) = draft.mtu.filter(|own| *own < net.mtu) {
            complain(
                format!(
                    "{} has MTU {own}, and net {name} on it {}",
                    draft.name, net.mtu
                ),
                &format!("raise the link's mtu to {}, or lower the net's", net.mtu),
            );
        }
        mtu = mtu.max(Some(net.mtu));
        attached.push(Attached {
            net: name.clone(),
            address,
            tagged: net.vlan.is_some() && !draft.access,
        });
    }
    if attached.iter().filter(|a| !a.tagged).count() > 1 {
        complain(
            format!("{} is in two nets without a VLAN number", draft.name),
            "one of them needs `vlan = N` and a switch that knows it, or a link of its own",
        );
    }
    let mtu = mtu.unwrap_or(1500);
    check::members(draft, drafts, mtu, &complain);
    let kind = match &draft.bond {
        Some(bond) => Kind::Bond(bond.clone()),
        None => Kind::Nic { mac: None },
    };
    Some(Link {
        name: draft.name.clone(),
        kind,
        mtu,
        mtu_max: draft.mtu_max,
        nets: attached,
        line: draft.line,
    })
}

/// Cards that only a bond names become links; members have the bond's MTU.
fn add_members(links: &mut Vec<Link>, drafts: &[Draft]) {
    for draft in drafts {
        let Some(bond) = &draft.bond else {
            continue;
        };
        let mtu = links
            .iter()
            .find(|l| l.name == draft.name)
            .map_or(1500, |l| l.mtu);
        for name in &bond.of {
            match links.iter_mut().find(|l| l.name == *name) {
                Some(link) => link.mtu = mtu,
                None => links.push(Link {
                    name: name.clone(),
                    kind: Kind::Nic { mac: None },
                    mtu,
                    mtu_max: None,
                    nets: Vec::new(),
                    line: draft.line,
                }),
            }
        }
    }
}
