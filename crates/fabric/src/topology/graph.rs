//! Ways through a net of direct cables.

use crate::inventory::{Direct, Port};
use std::collections::{BTreeMap, VecDeque};

/// The way from one node to another of its P2P net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub peer: String,
    /// The own link on which frames leave.
    pub link: String,
    /// The node at that link's other end, if it is not the peer itself.
    pub through: Option<String>,
}

/// Ways of a node to all others that it reaches, shortest first; others than neighbours only where the net forwards.
pub fn hops(direct: &Direct, me: &str) -> Vec<Hop> {
    let ways = ways(direct);
    let mut seen = BTreeMap::from([(me, (None, None))]);
    let mut queue = VecDeque::from([me]);
    let mut found = Vec::new();
    while let Some(node) = queue.pop_front() {
        if node != me && !direct.forward {
            continue;
        }
        for (own, far) in ways.get(node).into_iter().flatten() {
            if seen.contains_key(far.node.as_str()) {
                continue;
            }
            let (link, through) = match seen[node] {
                (Some(link), through) => (link, through.or(Some(node))),
                (None, _) => (own.link.as_str(), None),
            };
            seen.insert(&far.node, (Some(link), through));
            queue.push_back(&far.node);
            found.push(Hop {
                peer: far.node.clone(),
                link: link.to_owned(),
                through: through.map(str::to_owned),
            });
        }
    }
    found
}

fn ways(direct: &Direct) -> BTreeMap<&str, Vec<(&Port, &Port)>> {
    let mut ways: BTreeMap<&str, Vec<(&Port, &Port)>> = BTreeMap::new();
    for cable in &direct.cables {
        let [a, b] = &cable.ends;
        ways.entry(&a.node).or_default().push((a, b));
        ways.entry(&b.node).or_default().push((b, a));
    }
    ways
}

/// Whether a node forwards for others: it has more than one cable and the net forwards.
pub fn is_joint(direct: &Direct, node: &str) -> bool {
    let ends = direct.cables.iter().flat_map(|c| &c.ends);
    direct.forward && ends.filter(|p| p.node == node).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Cable;

    fn net(cables: &[(&str, &str)], forward: bool) -> Direct {
        let port = |t: &str| {
            let (node, link) = t.split_once('.').expect("port");
            Port {
                node: node.into(),
                link: link.into(),
            }
        };
        let cable = |(a, b): &(&str, &str)| Cable {
            ends: [port(a), port(b)],
        };
        Direct {
            cables: cables.iter().map(cable).collect(),
            forward,
        }
    }

    fn words(direct: &Direct, me: &str) -> Vec<String> {
        let word = |h: Hop| format!("{} {} {}", h.peer, h.link, h.through.unwrap_or_default());
        hops(direct, me)
            .into_iter()
            .map(|h| word(h).trim().to_owned())
            .collect()
    }

    #[test]
    fn clients_meet_only_where_the_server_forwards() {
        let cables = [("s.lan0", "a.x"), ("s.lan1", "b.x")];
        let apart = net(&cables, false);
        assert_eq!(words(&apart, "s"), ["a lan0", "b lan1"]);
        assert_eq!(words(&apart, "a"), ["s x"]);
        let met = net(&cables, true);
        assert_eq!(words(&met, "a"), ["s x", "b x s"]);
        assert!(is_joint(&met, "s") && !is_joint(&met, "a") && !is_joint(&apart, "s"));
    }

    #[test]
    fn joined_farms_pass_over_the_joint() {
        let joined = net(
            &[("s.p0", "a.x"), ("t.p0", "b.x"), ("s.bond0", "t.bond0")],
            true,
        );
        assert_eq!(words(&joined, "a"), ["s x", "t x s", "b x s"]);
        assert_eq!(words(&joined, "s"), ["a p0", "t bond0", "b bond0 t"]);
    }

    #[test]
    fn rings_end() {
        let ring = net(&[("a.1", "b.1"), ("b.2", "c.1"), ("c.2", "a.2")], true);
        assert_eq!(words(&ring, "a"), ["b 1", "c 2"]);
    }
}
