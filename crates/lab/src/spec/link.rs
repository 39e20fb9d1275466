//! Kinds of networks, by name, and which nodes reach each other on them.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Rates that tbf and veth can keep on one machine, bit/s.
const RATE_MIN: u64 = 64_000;
const RATE_MAX: u64 = 40_000_000_000;

const MBIT: u64 = 1_000_000;
/// Fast Ethernet: the links of point-to-point farms unless a rate is given. PAPER(P): 100 Mbit/s cards.
const P2P_BITS: u64 = 100 * MBIT;
/// The link between the two servers of `two-p2p`: ten times the others.
const JOINT_FACTOR: u64 = 10;

/// The network between nodes. All rates are bits per second on the wire, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// A switch with this rate on every port.
    Switch { bits: u64 },
    /// One medium for the frames of all nodes in both directions together. Collisions are not imitated.
    Hub { bits: u64 },
    /// `server`, counted from 1, has a link to each other node. The others have no way to each other.
    P2p { bits: u64, server: usize },
    /// Two farms of the kind `P2p`, each with half of the nodes (the first has one more where they are odd), whose servers
    /// n1 and n(half + 1) share a link of the rate `joint`.
    TwoP2p { bits: u64, joint: u64 },
    /// A bridge without limits.
    None,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let mbit = |kind: &str| {
            let n = s.strip_prefix(kind)?.parse::<u64>().ok()?;
            n.checked_mul(MBIT).filter(|bits| *bits > 0)
        };
        let server = |s: &str| {
            let n = s.strip_prefix('n').unwrap_or(s).parse::<usize>().ok()?;
            (n > 0).then_some(n)
        };
        if s == "none" {
            return Ok(Link::None);
        }
        if s == "two-p2p" {
            let (bits, joint) = (P2P_BITS, P2P_BITS * JOINT_FACTOR);
            return Ok(Link::TwoP2p { bits, joint });
        }
        if let Some(named) = s.strip_prefix("p2p") {
            let server = match named.strip_prefix(':') {
                Some(name) => server(name),
                None if named.is_empty() => Some(1),
                None => None,
            };
            let bits = P2P_BITS;
            return server
                .map(|server| Link::P2p { bits, server })
                .ok_or("use p2p, or p2p:n2 where n2 is the server".into());
        }
        let switch = mbit("switch").map(|bits| Link::Switch { bits });
        switch
            .or_else(|| mbit("hub").map(|bits| Link::Hub { bits }))
            .ok_or_else(|| {
                "use switch100, switch1000, hub10, p2p, p2p:NODE, two-p2p or none (any other rate: --rate 4gbit)".into()
            })
    }
}

impl Link {
    /// Rate of a link of most nodes; `None`: unlimited.
    pub fn bits(self) -> Option<u64> {
        match self {
            Link::Switch { bits }
            | Link::Hub { bits }
            | Link::P2p { bits, .. }
            | Link::TwoP2p { bits, .. } => Some(bits),
            Link::None => None,
        }
    }

    /// The same network with another rate.
    pub fn with_rate(self, bits: u64) -> Result<Link> {
        Ok(match self {
            Link::Switch { .. } => Link::Switch { bits },
            Link::Hub { .. } => Link::Hub { bits },
            Link::P2p { server, .. } => Link::P2p { bits, server },
            Link::TwoP2p { .. } => Link::TwoP2p {
                bits,
                joint: bits.saturating_mul(JOINT_FACTOR),
            },
            Link::None => {
                bail!("the link `none` has no rate\nhint: leave --link out, or use --link hub10")
            }
        })
    }

    /// Refuses what cannot be built for so many nodes, with a hint.
    pub fn check(self, nodes: usize) -> Result<()> {
        let joint = match self {
            Link::TwoP2p { joint, .. } => Some(joint),
            _ => None,
        };
        for bits in self.bits().into_iter().chain(joint) {
            if !(RATE_MIN..=RATE_MAX).contains(&bits) {
                bail!(
                    "rate {bits} bit/s is out of range\nhint: use 64kbit to 40gbit, or --link none"
                )
            }
        }
        match self {
            Link::P2p { server, .. } if !(1..=nodes).contains(&server) => bail!(
                "there is no node n{server} to be the server: the lab has {nodes}\nhint: --link p2p:n1"
            ),
            Link::TwoP2p { .. } if nodes < 2 => {
                bail!("two farms need two nodes or more\nhint: --nodes 4")
            }
            _ => Ok(()),
        }
    }

    /// Whether nodes are joined by direct links, without a bridge.
    pub fn direct(self) -> bool {
        matches!(self, Link::P2p { .. } | Link::TwoP2p { .. })
    }

    /// The server of node `i` of so many; all nodes are counted from 0. Without servers it is n1.
    pub fn server(self, nodes: usize, i: usize) -> usize {
        match self {
            Link::P2p { server, .. } => server - 1,
            Link::TwoP2p { .. } if i >= half(nodes) => half(nodes),
            _ => 0,
        }
    }

    /// Whether frames of node `a` reach node `b`, both counted from 0.
    pub fn joins(self, nodes: usize, a: usize, b: usize) -> bool {
        let server = |i| self.server(nodes, i);
        let is_server = |i| server(i) == i;
        !self.direct() || a == b || server(a) == b || server(b) == a || is_server(a) && is_server(b)
    }
}

/// Nodes of the first of two farms.
fn half(nodes: usize) -> usize {
    nodes.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_names() {
        let check = |name: &str, want: Option<Link>| {
            assert_eq!(name.parse::<Link>().ok(), want, "{name}");
        };
        let bits = 100 * MBIT;
        check("none", Some(Link::None));
        check("switch100", Some(Link::Switch { bits }));
        check("hub10", Some(Link::Hub { bits: 10 * MBIT }));
        check("p2p", Some(Link::P2p { bits, server: 1 }));
        check("p2p:n3", Some(Link::P2p { bits, server: 3 }));
        check("p2p:3", Some(Link::P2p { bits, server: 3 }));
        let joint = 1000 * MBIT;
        check("two-p2p", Some(Link::TwoP2p { bits, joint }));
        for bad in [
            "", "hub", "hub0", "switch", "p2p:", "p2p:0", "p2pn1", "ring",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn only_servers_join_the_nodes_of_direct_links() {
        let reached = |link: &str, nodes: usize| -> Vec<String> {
            let link: Link = link.parse().unwrap();
            let row = |a| (0..nodes).map(move |b| if link.joins(nodes, a, b) { 'x' } else { '.' });
            (0..nodes).map(|a| row(a).collect()).collect()
        };
        assert_eq!(reached("hub10", 3), ["xxx", "xxx", "xxx"]);
        assert_eq!(reached("p2p:n2", 4), ["xx..", "xxxx", ".xx.", ".x.x"]);
        assert_eq!(
            reached("two-p2p", 5),
            ["xxxx.", "xx...", "x.x..", "x..xx", "...xx"]
        );
        let p2p: Link = "p2p:n5".parse().unwrap();
        assert!(p2p.check(4).is_err() && p2p.check(5).is_ok());
    }

    #[test]
    fn rates_are_replaced_and_checked() {
        let hub = Link::Hub { bits: 10 * MBIT };
        assert_eq!(hub.with_rate(5).unwrap(), Link::Hub { bits: 5 });
        assert!(hub.with_rate(5).unwrap().check(2).is_err());
        assert!(Link::None.with_rate(5).is_err());
        let two: Link = "two-p2p".parse().unwrap();
        let fast = two.with_rate(1000 * MBIT).unwrap();
        let (bits, joint) = (1000 * MBIT, 10_000 * MBIT);
        assert_eq!(fast, Link::TwoP2p { bits, joint });
    }
}
