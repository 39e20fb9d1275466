//! The cables of a lab, computed from its plan: which veth pairs there are, and how each end is set up.
//!
//! ```text
//!   switch, hub, none              p2p                    two-p2p
//!   n1 eth0 ══ p1 ┐                n1 eth0 ══ eth0 n2     n1 eth0 ══ eth0 n2
//!   n2 eth0 ══ p2 ┤ br0            n1 eth1 ══ eth0 n3     n1 eth1 ══ eth1 n3
//!   n3 eth0 ══ p3 ┘                                       n3 eth0 ══ eth0 n4
//! ```

use crate::spec::{Link, Plan};

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A port of the bridge with this number, in the namespace of the switch process.
    Port { bridge: usize, name: String },
    /// The interface `eth{nic}` of a node; both counted from 0.
    Nic { node: usize, nic: usize },
}

/// A veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    pub ends: [End; 2],
    /// Rate in each direction, bit/s; `None`: not shaped by its ends.
    pub bits: Option<u64>,
}

/// An interface of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    pub name: String,
    pub hardware: String,
    pub addr: String,
    /// Length of its network.
    pub prefix: u8,
    /// The nodes at the other end: address, hardware address.
    pub peers: Vec<(String, String)>,
    /// A direct link: the peers are reached by routes of their own, since all links of a server have one address.
    pub direct: bool,
    pub bits: Option<u64>,
    /// Share of frames that its cable loses in each direction, 0 to 1.
    pub loss: f64,
}

pub fn nic_name(nic: usize) -> String {
    format!("eth{nic}")
}

/// Bridges of the lab: one, or two with a second link, or none with direct links.
pub fn bridges(plan: &Plan) -> usize {
    match (plan.link.direct(), plan.second_link) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    }
}

/// All cables; those of one node are in the order of its interfaces.
pub fn wires(plan: &Plan) -> Vec<Wire> {
    let nodes = plan.nodes.len();
    let bits = match plan.link {
        Link::Hub { .. } => None, // the medium is shaped, not the ports
        link => link.bits(),
    };
    if !plan.link.direct() {
        let ports = (0..bridges(plan)).flat_map(|bridge| {
            let letter = ["p", "q"][bridge.min(1)];
            (0..nodes).map(move |node| {
                let name = format!("{letter}{}", node + 1);
                let ends = [End::Port { bridge, name }, End::Nic { node, nic: bridge }];
                Wire { ends, bits }
            })
        });
        return ports.collect();
    }
    let mut used = vec![0; nodes];
    let mut nic = |node: usize| {
        used[node] += 1;
        let nic = used[node] - 1;
        End::Nic { node, nic }
    };
    let server = |i| plan.link.server(nodes, i);
    let clients = (0..nodes).filter(|&i| server(i) != i);
    let mut all: Vec<Wire> = clients
        .map(|i| Wire {
            ends: [nic(server(i)), nic(i)],
            bits,
        })
        .collect();
    if let Link::TwoP2p { joint, .. } = plan.link {
        let ends = [nic(0), nic(server(nodes - 1))];
        let bits = Some(joint);
        all.push(Wire { ends, bits });
    }
    all
}

/// A locally administered, unique hardware address: IEEE 802, the second bit of the first octet.
fn hardware(addr: &str, nic: usize) -> String {
    let octets = addr.split('.').filter_map(|o| o.parse::<u8>().ok());
    let first = format!("02:{:02x}", 0x41 + nic);
    octets.fold(first, |all, o| format!("{all}:{o:02x}"))
}

/// The interfaces of node `me`, counted from 0.
pub fn nics(plan: &Plan, me: usize) -> Vec<Nic> {
    let direct = plan.link.direct();
    let addr = |node: usize, nic: usize| {
        let n = &plan.nodes[node];
        match (&n.second_addr, nic) {
            (Some(second), 1) => second.clone(),
            _ => n.addr.clone(),
        }
    };
    let end = |node: usize, nic: usize| {
        let addr = addr(node, nic);
        let hardware = hardware(&addr, nic);
        (addr, hardware)
    };
    let mut found = Vec::new();
    for wire in wires(plan) {
        let own = wire
            .ends
            .iter()
            .position(|e| matches!(e, End::Nic { node, .. } if *node == me));
        let Some(own) = own else { continue };
        let End::Nic { nic, .. } = wire.ends[own] else {
            continue;
        };
        let (addr, hardware) = end(me, nic);
        let (peers, far) = match wire.ends[1 - own] {
            End::Nic { node, nic } => (vec![end(node, nic)], Some(node)),
            End::Port { .. } => {
                let others = (0..plan.nodes.len()).filter(|&i| i != me);
                (others.map(|i| end(i, nic)).collect(), None)
            }
        };
        found.push(Nic {
            name: nic_name(nic),
            hardware,
            addr,
            prefix: match nic {
                _ if direct => 32,
                1 => plan.nodes[me].second_prefix,
                _ => plan.nodes[me].prefix,
            },
            peers,
            direct,
            bits: wire.bits,
            loss: loss(plan, &[Some(me), far]),
        });
    }
    found
}

/// The share of frames lost by a cable between these nodes.
pub fn loss(plan: &Plan, ends: &[Option<usize>]) -> f64 {
    let faults = plan.faults.iter().map(|f| f.of());
    let hit = faults.filter(|(node, _)| ends.contains(&Some(*node)));
    hit.map(|(_, share)| share).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn plan(link: &str, nodes: usize, second_link: bool) -> Plan {
        let spec = Spec {
            link: link.parse().unwrap(),
            nodes,
            second_link,
            faults: vec!["duplex:n2:10".parse().unwrap()],
            ..Spec::default()
        };
        spec.plan(3, &[0], "/armento".into())
    }

    #[test]
    fn every_node_of_a_switch_has_a_port() {
        let p = plan("switch100", 2, true);
        let all = wires(&p);
        assert_eq!((bridges(&p), all.len()), (2, 4));
        let name = "q2".to_owned();
        let want = [End::Port { bridge: 1, name }, End::Nic { node: 1, nic: 1 }];
        assert_eq!(all[3].ends, want);
        let nics = nics(&p, 0);
        let of: Vec<_> = nics
            .iter()
            .map(|n| (&n.name[..], &n.addr[..], n.loss))
            .collect();
        assert_eq!(of, [("eth0", "10.77.3.1", 0.0), ("eth1", "10.78.3.1", 0.0)]);
        assert_eq!(
            nics[1].peers,
            [("10.78.3.2".into(), "02:42:0a:4e:03:02".to_owned())]
        );
    }

    #[test]
    fn ports_of_a_hub_are_not_shaped() {
        assert!(
            wires(&plan("hub10", 3, false))
                .iter()
                .all(|w| w.bits.is_none())
        );
    }

    #[test]
    fn server_has_one_address_on_all_its_links() {
        let p = plan("p2p", 3, false);
        let server = nics(&p, 0);
        let of: Vec<_> = server
            .iter()
            .map(|n| (&n.name[..], &n.addr[..], &n.peers[0].0[..], n.loss))
            .collect();
        let own = "10.77.3.1";
        let want = [
            ("eth0", own, "10.77.3.2", 0.1),
            ("eth1", own, "10.77.3.3", 0.0),
        ];
        assert_eq!(of, want);
        let client = nics(&p, 2);
        assert_eq!(client.len(), 1);
        assert_eq!(
            client[0].peers,
            [(own.into(), "02:42:0a:4d:03:01".to_owned())]
        );
        assert!(client[0].direct);
    }

    #[test]
    fn servers_of_two_farms_share_a_fast_link() {
        let p = plan("two-p2p", 4, false);
        let last = wires(&p).pop().unwrap();
        let ends = [End::Nic { node: 0, nic: 1 }, End::Nic { node: 2, nic: 1 }];
        assert_eq!((last.ends, last.bits), (ends, Some(1_000_000_000)));
        assert_eq!(nics(&p, 3)[0].peers[0].0, "10.77.3.3");
    }
}
