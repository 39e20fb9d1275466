//! Cards, cables, ports and rates of a wiring, as the papers count them.

use crate::inventory::{Farm, Kind, Net, Wiring};
use serde::Serialize;

/// What a net of some nodes needs and gives. Rates in Mbit/s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// `switch`, `hub`, `p2p`, `two-p2p`.
    pub topology: &'static str,
    pub nodes: usize,
    pub nics: usize,
    pub cables: usize,
    /// `direct`, or `crossed` between two cards (PAPER(openmosix-topology): before automatic crossing).
    pub cable: &'static str,
    /// Of the switch or the hub.
    pub ports: usize,
    /// Cards in the fullest machine.
    pub server_nics: usize,
    /// What all others can send to the server together.
    pub to_server_mbit: u64,
    /// What all pairs can send at once, both directions.
    pub all_mbit: u64,
    /// Whether two nodes that are no servers reach each other.
    pub clients_meet: bool,
    /// Nodes that fit: the server has seven slots and one card on its board, with single or double cards.
    pub nodes_max: Option<[usize; 2]>,
}

/// PAPER(openmosix-topology, testbed): a server with 7 PCI slots and a card on its board has 8 ports, 15 with double cards.
const PORTS: [usize; 2] = [8, 15];

/// The wirings of the papers for `nodes` nodes with links of `mbit`. A joint of two servers has ten times the rate.
pub fn table(nodes: usize, mbit: u32) -> Vec<Cost> {
    let rate = u64::from(mbit);
    let clients = nodes.saturating_sub(1);
    let n = nodes as u64;
    let spokes = |servers: usize, topology| {
        let leaves = nodes.saturating_sub(servers);
        let joints = servers - 1;
        let of_one = leaves.div_ceil(servers) + joints;
        let fit = |ports: usize| servers * (ports - joints) + servers;
        Cost {
            topology,
            nodes,
            nics: 2 * (leaves + joints),
            cables: leaves + joints,
            cable: "crossed",
            ports: 0,
            server_nics: of_one,
            to_server_mbit: rate * leaves as u64,
            all_mbit: 2 * rate * leaves as u64 + 20 * rate * joints as u64,
            clients_meet: false,
            nodes_max: Some(PORTS.map(fit)),
        }
    };
    let shared = |topology, all_mbit| Cost {
        topology,
        nodes,
        nics: nodes,
        cables: nodes,
        cable: "direct",
        ports: nodes,
        server_nics: 1,
        to_server_mbit: if clients == 0 { 0 } else { rate },
        all_mbit,
        clients_meet: true,
        nodes_max: None,
    };
    let mut all = vec![shared("hub", rate), shared("switch", rate * n)];
    if nodes >= 2 {
        all.push(spokes(1, "p2p"));
    }
    if nodes >= 4 {
        all.push(spokes(2, "two-p2p"));
    }
    all
}

/// Rate of a port that the file does not tell: gigabit Ethernet.
pub const MBIT: u32 = 1000;

/// What a net of the farm has as it is declared; its members' bonds count their cards.
pub fn cost(farm: &Farm, net: &Net) -> Cost {
    let cards = |kind: &Kind| match kind {
        Kind::Nic { .. } => 1,
        Kind::Bond(bond) => bond.of.len(),
    };
    let rate = u64::from(net.mbit.unwrap_or(MBIT));
    let of = |node: &crate::inventory::Node| -> usize {
        let links = node
            .links
            .iter()
            .filter(|l| l.nets.iter().any(|a| a.net == net.name));
        links.map(|l| cards(&l.kind)).sum()
    };
    let each: Vec<usize> = farm.nodes.iter().map(of).filter(|n| *n > 0).collect();
    let (nodes, nics) = (each.len(), each.iter().sum::<usize>());
    let most = each.iter().copied().max().unwrap_or(0);
    let server_cards = each.first().copied().unwrap_or(0) as u64;
    match &net.wiring {
        Wiring::Direct(direct) => {
            let cards_of = |p: &crate::inventory::Port| {
                farm.node(&p.node)
                    .and_then(|n| n.link(&p.link))
                    .map_or(1, |l| cards(&l.kind))
            };
            let cables: usize = direct.cables.iter().map(|c| cards_of(&c.ends[0])).sum();
            let ends = |node: &str| {
                let ends = direct
                    .cables
                    .iter()
                    .flat_map(|c| &c.ends)
                    .filter(|p| p.node == node);
                ends.count()
            };
            let servers = farm.nodes.iter().filter(|n| ends(&n.name) > 1).count();
            let joints = direct
                .cables
                .iter()
                .filter(|c| c.ends.iter().all(|p| ends(&p.node) > 1))
                .count();
            Cost {
                topology: if servers > 1 { "two-p2p" } else { "p2p" },
                nodes,
                nics,
                cables,
                cable: "crossed",
                ports: 0,
                server_nics: most,
                to_server_mbit: rate * (cables.saturating_sub(joints)) as u64,
                all_mbit: 2 * rate * cables as u64,
                clients_meet: direct.forward,
                nodes_max: Some(PORTS.map(|p| p + 1)),
            }
        }
        shared => {
            let hub = *shared == Wiring::Hub;
            Cost {
                topology: if hub { "hub" } else { "switch" },
                nodes,
                nics,
                cables: nics,
                cable: "direct",
                ports: nics,
                server_nics: most,
                to_server_mbit: rate * if hub { 1 } else { server_cards },
                all_mbit: rate * if hub { 1 } else { nics as u64 },
                clients_meet: true,
                nodes_max: None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_papers() {
        let of = |nodes: usize, topology: &str| {
            let all = table(nodes, 100);
            all.into_iter()
                .find(|c| c.topology == topology)
                .expect(topology)
        };
        // PAPER(openmosix-topology, stereo.csv): cables and nics_total of four nodes.
        for (topology, cables, nics) in [("hub", 4, 4), ("switch", 4, 4), ("p2p", 3, 6)] {
            let cost = of(4, topology);
            assert_eq!((cost.cables, cost.nics), (cables, nics), "{topology}");
        }
        // PAPER(openmosix-topology, testbed.toml): max_nodes_7_pci_1_onboard, max_nodes_7_dual_port_1_onboard.
        assert_eq!(of(4, "p2p").nodes_max, Some([9, 16]));
        assert_eq!(of(9, "p2p").server_nics, 8);
        assert_eq!(of(6, "two-p2p").nics, 10);
        assert_eq!(of(4, "hub").all_mbit, 100);
        assert_eq!(of(4, "p2p").to_server_mbit, 300);
    }
}
