//! The paper's networks. PAPER(P, stereo and mono, cases 2 to 4).

use armento_lab::Link;

/// A hub of 10 Mbit/s, where the switch and the direct links have 100.
const HUB_SHARE: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One medium for all, at a tenth of the others' rate.
    Hub,
    Switch,
    /// The first node has a link to each other one.
    P2p,
}

impl Topology {
    pub const ALL: [Topology; 3] = [Topology::Hub, Topology::Switch, Topology::P2p];

    pub fn word(self) -> &'static str {
        match self {
            Topology::Hub => "hub",
            Topology::Switch => "switch",
            Topology::P2p => "p2p",
        }
    }

    /// `rate_mbit`: of a port of the switch.
    pub fn link(self, rate_mbit: u32) -> Link {
        let bits = u64::from(rate_mbit) * 1_000_000;
        match self {
            Topology::Hub => Link::Hub {
                bits: (bits as f64 * HUB_SHARE) as u64,
            },
            Topology::Switch => Link::Switch { bits },
            Topology::P2p => Link::P2p { bits, server: 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_ten_times_slower() {
        assert_eq!(Topology::Hub.link(100), Link::Hub { bits: 10_000_000 });
        assert_eq!(Topology::P2p.link(100).bits(), Some(100_000_000));
    }
}
