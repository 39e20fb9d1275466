//! Faults are put one by one into a healthy farm's observations: the doctor names each first, at its node and link, and
//! finds nothing in the healthy farm.

mod common;

use armento_fabric::diagnose::{
    ArpAnswers, Flow, Heard, LinkExtra, MtuProbe, OBSERVATION, Observation, PathSeen, diagnose,
};
use armento_fabric::inventory::{Farm, Wiring};
use armento_fabric::observe::{BondSeen, Counters, MemberSeen, Observed, RouteSeen, Seen};
use armento_fabric::plan::{Device, plan};
use armento_fabric::topology::hops;
use common::{farm, read};

const SWITCHED: &str = "\
farm = { boot_servers = [\"n1\"] }
net.mgmt = { cidr = \"192.168.3.0/24\", boot = true }
net.app = { cidr = \"192.168.4.0/24\", vlan = 4, mtu = 9000 }
node.\"n[1-4]\" = { first_id = 1, lan0 = \"mgmt\", bond0 = { of = [\"lan1\", \"lan2\"], net = \"app\" } }
";

/// A kernel that is as planned; hardware addresses from node and link.
fn network(farm: &Farm, node: &str) -> Observed {
    let node = farm.node(node).expect(node);
    let plan = plan(farm, node);
    let link = |(i, l): (usize, &armento_fabric::plan::Planned)| {
        let mac = format!("02:00:00:00:{:02x}:{i:02x}", node.number)
            .parse()
            .ok();
        let mut seen = Seen {
            index: i as u32 + 2,
            name: l.name.clone(),
            mac,
            mtu: l.mtu,
            up: true,
            carrier: true,
            addresses: l.addresses.clone(),
            counters: Counters {
                speed_mbit: Some(1000),
                duplex: "full".into(),
                carrier_changes: 2,
                ..Counters::default()
            },
            ..Seen::default()
        };
        match &l.device {
            Device::Nic {
                bond: Some(bond), ..
            } => {
                seen.bond = Some(bond.clone());
                seen.member = Some(MemberSeen {
                    aggregator: 1,
                    port_state: 0x3f,
                    failures: 0,
                });
            }
            Device::Nic { mac: Some(mac), .. } => seen.mac = Some(*mac),
            Device::Nic { .. } => {}
            Device::Bond {
                mode,
                miimon_ms,
                lacp_fast,
                hash,
                ..
            } => {
                seen.kind = "bond".into();
                seen.counters.speed_mbit = Some(2000);
                seen.bonding = Some(BondSeen {
                    mode: (*mode).into(),
                    miimon_ms: *miimon_ms,
                    lacp_fast: *lacp_fast,
                    hash: hash.clone(),
                    partner: "00:01:e8:00:00:01".into(),
                    ports: 2,
                });
            }
            Device::Vlan { below, id } => {
                seen.kind = "vlan".into();
                seen.counters.speed_mbit = Some(2000);
                seen.vlan = Some((below.clone(), *id));
            }
        }
        seen
    };
    let route = |r: &armento_fabric::plan::Route| RouteSeen {
        to: (r.to.prefix_len() > 0).then_some(r.to),
        via: r.via,
        link: r.link.clone(),
        from: r.from,
        protocol: "static".into(),
        metric: 0,
    };
    Observed {
        links: plan.links.iter().enumerate().map(link).collect(),
        routes: plan.routes.iter().map(route).collect(),
        sysctls: plan.sysctls.clone(),
    }
}

/// What every node of a healthy farm sees.
fn healthy(farm: &Farm) -> Vec<Observation> {
    let mut all: Vec<Observation> = Vec::new();
    for node in &farm.nodes {
        let mut one = Observation {
            schema: OBSERVATION.into(),
            node: node.name.clone(),
            network: network(farm, &node.name),
            ..Observation::default()
        };
        let devices = plan(farm, node).links;
        for net in farm.nets.values() {
            let Some(own) = node.address(&net.name) else {
                continue;
            };
            let device = devices
                .iter()
                .find(|l| l.addresses.iter().any(|a| a.addr() == own))
                .expect("device")
                .name
                .clone();
            let peers: Vec<(String, String)> = match &net.wiring {
                Wiring::Direct(d) => hops(d, &node.name)
                    .into_iter()
                    .map(|h| (h.peer, h.link))
                    .collect(),
                _ => farm
                    .nodes
                    .iter()
                    .filter(|n| n.name != node.name)
                    .map(|n| (n.name.clone(), device.clone()))
                    .collect(),
            };
            for (peer, link) in peers {
                let address = farm
                    .node(&peer)
                    .and_then(|n| n.address(&net.name))
                    .expect("address");
                one.paths.push(PathSeen {
                    peer: peer.clone(),
                    net: net.name.clone(),
                    address: address.to_string(),
                    link: Some(link.clone()),
                    small: (5, 5),
                    full: (20, 20),
                    mtu: Some(MtuProbe {
                        wanted: net.mtu,
                        passed: net.mtu,
                        local: false,
                    }),
                });
                if !matches!(net.wiring, Wiring::Direct(_)) {
                    let seen = network(farm, &peer);
                    let mac = seen
                        .links
                        .iter()
                        .find(|l| l.name == link)
                        .and_then(|l| l.mac)
                        .expect("mac");
                    one.arp.push(ArpAnswers {
                        link: link.clone(),
                        address: address.to_string(),
                        node: peer.clone(),
                        macs: vec![mac],
                    });
                    one.heard.push(Heard {
                        link: link.clone(),
                        node: peer,
                        from: link,
                        lag_us: 150,
                    });
                }
            }
            if let Wiring::Direct(d) = &net.wiring {
                for [a, b] in d.cables.iter().map(|c| &c.ends) {
                    let far = if a.node == node.name {
                        Some((a, b))
                    } else if b.node == node.name {
                        Some((b, a))
                    } else {
                        None
                    };
                    one.heard.extend(far.map(|(own, far)| Heard {
                        link: own.link.clone(),
                        node: far.node.clone(),
                        from: far.link.clone(),
                        lag_us: 150,
                    }));
                }
            }
        }
        all.push(one);
    }
    all
}

fn link<'a>(all: &'a mut [Observation], node: usize, name: &str) -> &'a mut Seen {
    all[node]
        .network
        .links
        .iter_mut()
        .find(|l| l.name == name)
        .expect(name)
}

/// Puts `fault` into a healthy farm; the first finding must be this one.
fn first(farm: &Farm, code: &str, node: &str, at: &str, fault: impl Fn(&mut [Observation])) {
    let mut all = healthy(farm);
    fault(&mut all);
    let found = diagnose(farm, &all);
    let first = found
        .first()
        .unwrap_or_else(|| panic!("{code}: nothing was found"));
    assert_eq!(
        (first.code, first.node.as_str(), first.link.as_str()),
        (code, node, at),
        "{found:#?}"
    );
    assert!(!first.evidence.is_empty() && !first.remedy.is_empty());
}

#[test]
fn healthy_farms_have_no_findings() {
    let switched = read(SWITCHED).expect("farm");
    for farm in [switched, farm("p2p"), farm("met"), farm("joined")] {
        assert_eq!(diagnose(&farm, &healthy(&farm)), [], "{}", farm.name);
    }
}

#[test]
fn faults_at_links_are_named_first() {
    let farm = &read(SWITCHED).expect("farm");
    first(farm, "link-missing", "n2", "bond0.4", |all| {
        all[1].network.links.retain(|l| l.name != "bond0.4")
    });
    first(farm, "link-down", "n2", "lan0", |all| {
        link(all, 1, "lan0").up = false
    });
    first(farm, "no-carrier", "n3", "lan0", |all| {
        link(all, 2, "lan0").carrier = false;
        for one in all.iter_mut() {
            for path in one
                .paths
                .iter_mut()
                .filter(|p| p.net == "mgmt" && (p.peer == "n3" || one.node == "n3"))
            {
                (path.small, path.full, path.mtu) = ((0, 5), (0, 20), None);
            }
        }
    });
    first(farm, "carrier-flaps", "n2", "lan1", |all| {
        all[1].flaps.push(("lan1".into(), 3))
    });
    first(farm, "duplex", "n4", "lan0", |all| {
        link(all, 3, "lan0").counters.duplex = "half".into()
    });
    first(farm, "speed", "n2", "lan2", |all| {
        link(all, 1, "lan2").counters.speed_mbit = Some(100)
    });
    first(farm, "mtu-setting", "n2", "bond0", |all| {
        link(all, 1, "bond0").mtu = 1500;
        for path in all
            .iter_mut()
            .flat_map(|o| &mut o.paths)
            .filter(|p| p.net == "app" && p.peer == "n2")
        {
            path.full = (0, 20);
            path.mtu = Some(MtuProbe {
                wanted: 9000,
                passed: 1500,
                local: false,
            });
        }
    });
    first(farm, "address", "n1", "lan0", |all| {
        link(all, 0, "lan0").addresses.clear()
    });
    first(farm, "kernel-setting", "n1", "", |all| {
        all[0]
            .network
            .sysctls
            .insert("net/ipv4/conf/lan0/arp_ignore".into(), "0".into());
    });
    first(farm, "frame-errors", "n1", "lan1", |all| {
        link(all, 0, "lan1").counters.rx_crc_errors = 4000
    });
}

#[test]
fn faults_of_bonds_are_named_first() {
    let farm = &read(SWITCHED).expect("farm");
    let bond = |all: &mut [Observation], change: &dyn Fn(&mut BondSeen)| {
        change(link(all, 1, "bond0").bonding.as_mut().expect("bond"));
    };
    first(farm, "lacp-partner", "n2", "bond0", |all| {
        bond(all, &|b| b.partner = "00:00:00:00:00:00".into())
    });
    first(farm, "lacp-split", "n2", "bond0", |all| {
        link(all, 1, "lan2")
            .member
            .as_mut()
            .expect("member")
            .aggregator = 2
    });
    first(farm, "lacp-split", "n2", "bond0", |all| {
        link(all, 1, "lan2")
            .member
            .as_mut()
            .expect("member")
            .port_state = 0x07
    });
    first(farm, "bond-miimon", "n2", "bond0", |all| {
        bond(all, &|b| b.miimon_ms = 0)
    });
    first(farm, "bond-member", "n2", "lan2", |all| {
        let lan2 = link(all, 1, "lan2");
        (lan2.bond, lan2.member) = (None, None);
    });
    let flows = read(&SWITCHED.replace("net = \"app\" }", "net = \"app\", hash = \"layer2\" }"))
        .expect("farm");
    first(&flows, "bond-one-link", "n2", "bond0", |all| {
        link(all, 1, "lan1").counters.tx_bytes = 1 << 30
    });
}

#[test]
fn faults_on_paths_are_named_first() {
    let farm = &read(SWITCHED).expect("farm");
    let path = |all: &mut [Observation], net: &str, peer: &str, change: &dyn Fn(&mut PathSeen)| {
        change(
            all[0]
                .paths
                .iter_mut()
                .find(|p| p.net == net && p.peer == peer)
                .expect("path"),
        );
    };
    first(farm, "mtu-path", "n1", "bond0.4", |all| {
        path(all, "app", "n3", &|p| {
            p.full = (0, 20);
            p.mtu = Some(MtuProbe {
                wanted: 9000,
                passed: 1500,
                local: false,
            })
        });
    });
    first(farm, "mtu-local", "n1", "bond0.4", |all| {
        path(all, "app", "n3", &|p| {
            p.full = (0, 20);
            p.mtu = Some(MtuProbe {
                wanted: 9000,
                passed: 1500,
                local: true,
            })
        });
    });
    first(farm, "unreachable", "n1", "lan0", |all| {
        path(all, "mgmt", "n3", &|p| {
            (p.small, p.full, p.mtu) = ((0, 5), (0, 20), None)
        })
    });
    first(farm, "loss", "n1", "lan0", |all| {
        path(all, "mgmt", "n3", &|p| p.full = (14, 20))
    });
    first(farm, "route-wrong", "n1", "lan0", |all| {
        path(all, "mgmt", "n3", &|p| p.link = Some("bond0.4".into()))
    });
    first(farm, "rp-filter", "n1", "", |all| all[0].rp_drops = 7);
    first(farm, "dhcp-second", "n1", "lan0", |all| {
        all[0].dhcp = ["192.168.3.1", "192.168.3.77"]
            .map(|a| ("lan0".to_owned(), a.parse().expect("address")))
            .to_vec();
    });
    first(farm, "corruption", "n1", "", |all| {
        all[0].flows.push(Flow {
            peer: "n2".into(),
            net: "app".into(),
            bytes: 1 << 30,
            wrong: 3,
            broken: Vec::new(),
        });
    });
    first(farm, "clock-skew", "n3", "", |all| {
        for one in all.iter_mut() {
            let own = one.node == "n3";
            for heard in one.heard.iter_mut().filter(|h| own || h.node == "n3") {
                heard.lag_us += if own { 2_000_000 } else { -2_000_000 };
            }
        }
    });
    let mac = |text: &str| text.parse().expect("mac");
    first(farm, "arp-flux", "n2", "lan0", |all| {
        let second = all[1].network.links[1].mac.expect("mac");
        all[0]
            .arp
            .iter_mut()
            .find(|a| a.node == "n2" && a.link == "lan0")
            .expect("answers")
            .macs
            .push(second);
    });
    first(farm, "duplicate-address", "n2", "lan0", |all| {
        all[0]
            .arp
            .iter_mut()
            .find(|a| a.node == "n2" && a.link == "lan0")
            .expect("answers")
            .macs
            .push(mac("02:de:ad:00:00:01"));
    });
    first(farm, "vlan-leak", "n1", "lan0", |all| {
        all[0].heard.push(Heard {
            link: "lan0".into(),
            node: "n2".into(),
            from: "bond0.4".into(),
            lag_us: 150,
        });
    });
}

#[test]
fn a_switch_port_is_named_by_the_paths_that_have_it_in_common() {
    let farm = &read(SWITCHED).expect("farm");
    let small = Some(MtuProbe {
        wanted: 9000,
        passed: 1500,
        local: false,
    });
    let through = |all: &mut [Observation], only_to: bool| {
        for one in all {
            let own = one.node == "n3";
            let paths = one.paths.iter_mut().filter(|p| p.net == "app");
            for path in paths.filter(|p| p.peer == "n3" || own && !only_to) {
                path.full = (0, 20);
                path.mtu = small.clone();
            }
        }
    };
    first(farm, "mtu-path", "n3", "bond0.4", |all| through(all, false));
    // One way only: the node itself sees nothing.
    first(farm, "mtu-path", "n3", "bond0.4", |all| through(all, true));
    let mut all = healthy(farm);
    through(&mut all, false);
    assert_eq!(diagnose(farm, &all).len(), 1, "one fault, one finding");
}

#[test]
fn faults_of_p2p_farms_are_named_first() {
    let apart = &farm("p2p");
    // Two cables at the server changed places.
    first(apart, "cable-swapped", "nodo2", "lan0", |all| {
        for one in all.iter_mut() {
            for heard in &mut one.heard {
                match (one.node.as_str(), heard.node.as_str()) {
                    ("server", "nodo2") => heard.link = "lan1".into(),
                    ("server", "nodo3") => heard.link = "lan0".into(),
                    ("nodo2", _) => heard.from = "lan1".into(),
                    ("nodo3", _) => heard.from = "lan0".into(),
                    _ => {}
                }
            }
        }
    });
    // The paper's mistake: no host routes, all leaves by the first card.
    first(apart, "route-wrong", "server", "lan1", |all| {
        all[0].network.routes.retain(|r| r.link == "lan0");
        for path in &mut all[0].paths {
            path.link = Some("lan0".into());
        }
    });
    let met = &farm("met");
    first(met, "kernel-setting", "server", "", |all| {
        all[0]
            .network
            .sysctls
            .insert("net/ipv4/ip_forward".into(), "0".into());
    });
    first(met, "offload-lro", "server", "lan0", |all| {
        all[0].extras.push(LinkExtra {
            link: "lan0".into(),
            lro: true,
        })
    });
    first(met, "route-wrong", "nodo2", "lan0", |all| {
        all[1].paths[0].link = Some("lan7".into())
    });
}

#[test]
fn observations_of_strangers_and_half_ones_do_no_harm() {
    let farm = read(SWITCHED).expect("farm");
    let stranger = Observation {
        node: "zz".into(),
        ..Observation::default()
    };
    assert_eq!(diagnose(&farm, &[stranger]), []);
    let empty: Observation = serde_json::from_str("{\"schema\": \"x\", \"node\": \"n1\", \"network\": {\"links\": [], \"routes\": [], \"sysctls\": {}}}").expect("JSON");
    assert!(diagnose(&farm, &[empty]).iter().all(|f| f.node == "n1"));
}
