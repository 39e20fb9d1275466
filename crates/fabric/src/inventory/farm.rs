//! A checked farm: what the file says, with profiles merged, ranges expanded and addresses counted out.

use crate::addr::Mac;
use ipnet::IpNet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A farm whose every reference leads somewhere: nets and nodes that are named exist, addresses and numbers are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Farm {
    pub name: String,
    /// Nodes that serve the boot of others; the first one is asked first.
    pub boot_servers: Vec<String>,
    pub nets: BTreeMap<String, Net>,
    /// In the order of their numbers.
    pub nodes: Vec<Node>,
}

/// A network of the farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    pub name: String,
    pub cidr: IpNet,
    /// The address of the node with number 1.
    pub first: IpAddr,
    /// IEEE 802.1Q; frames are tagged by the node, unless its link is an access port.
    pub vlan: Option<u16>,
    /// Bytes of a frame's payload; 1500 unless the file says otherwise.
    pub mtu: u32,
    pub gateway: Option<IpAddr>,
    /// Nodes without a disk start from this net.
    pub boot: bool,
    /// Rate of one port in Mbit/s, if the file says it.
    pub mbit: Option<u32>,
    pub wiring: Wiring,
    /// The line that begins it.
    pub line: usize,
}

/// How the ports of a net are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wiring {
    Switch,
    Hub,
    /// Cables from node to node.
    Direct(Direct),
}

/// Cables from node to node (the papers' P2P), as a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    pub cables: Vec<Cable>,
    /// Nodes with more than one cable forward for the others.
    pub forward: bool,
}

/// One cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cable {
    pub ends: [Port; 2],
}

/// A link of a node, written `node.link`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Port {
    pub node: String,
    pub link: String,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.node, self.link)
    }
}

/// A machine of the farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Its number in openmosix.map, 1 to 65535.
    pub number: u16,
    pub root: Root,
    /// The image that it boots; without one, the only image that its boot servers have.
    pub image: Option<String>,
    /// Directories of a live root that outlive a restart: absolute, on the node.
    pub persist: Vec<String>,
    pub links: Vec<Link>,
    /// Processes that a launcher starts there.
    pub slots: u32,
    /// The line that names it.
    pub line: usize,
}

impl Node {
    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|l| l.name == name)
    }

    /// Its address in a net, if it has one there.
    pub fn address(&self, net: &str) -> Option<IpAddr> {
        let attached = self.links.iter().flat_map(|l| &l.nets);
        attached.filter(|a| a.net == net).map(|a| a.address).next()
    }
}

impl Node {
    /// The link by which it is in a net.
    pub fn link_in(&self, net: &str) -> Option<&Link> {
        self.links
            .iter()
            .find(|l| l.nets.iter().any(|a| a.net == net))
    }

    /// Hardware addresses from which its firmware may boot in this net: of the card, or of each member of a bond.
    pub fn boot_macs(&self, net: &str) -> Vec<Mac> {
        let mac = |link: &Link| match link.kind {
            Kind::Nic { mac } => mac,
            Kind::Bond(_) => None,
        };
        match self.link_in(net).map(|link| (link, &link.kind)) {
            None => Vec::new(),
            Some((link, Kind::Nic { .. })) => mac(link).into_iter().collect(),
            Some((_, Kind::Bond(bond))) => {
                let members = bond.of.iter().filter_map(|m| self.link(m));
                members.filter_map(mac).collect()
            }
        }
    }
}

impl Farm {
    /// The net from which nodes without a disk start.
    pub fn boot_net(&self) -> Option<&Net> {
        self.nets.values().find(|n| n.boot)
    }

    /// The node that boots with this card, or has it in any net.
    pub fn node_with(&self, mac: Mac) -> Option<&Node> {
        let has = |n: &&Node| {
            let mut links = n.links.iter();
            links.any(|l| matches!(l.kind, Kind::Nic { mac: Some(m) } if m == mac))
        };
        self.nodes.iter().find(has)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The net by which nodes are known: the one from which they boot, or else the first that any node is in.
    pub fn main_net(&self) -> Option<&Net> {
        let used = |net: &&Net| self.nodes.iter().any(|n| n.address(&net.name).is_some());
        let boot = self.nets.values().find(|n| n.boot);
        boot.or_else(|| self.nets.values().find(used))
    }
}

/// Where a node's root file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// Its own disk; the farm does not boot it.
    #[default]
    Disk,
    /// Shared, over the network.
    Live,
    /// An image in its memory.
    Ram,
}

/// A link of a node: a card, or several as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    pub kind: Kind,
    /// Bytes of a frame's payload.
    pub mtu: u32,
    /// The largest MTU that the card can do, if the file says so.
    pub mtu_max: Option<u32>,
    pub nets: Vec<Attached>,
    pub line: usize,
}

/// What a link is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A card, known by its permanent hardware address; without one, by the kernel's name for it.
    Nic {
        mac: Option<Mac>,
    },
    Bond(Bond),
}

/// Several cards as one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bond {
    pub of: Vec<String>,
    pub mode: BondMode,
    /// Milliseconds between looks at the carrier of each member. KERNEL: bonding.rst: 0, the default, never looks.
    pub miimon_ms: u32,
    /// LACPDUs each second instead of each 30 s; 802.3ad only.
    pub lacp_fast: bool,
    /// Which fields of a frame choose its member: `layer2`, `layer2+3`, `layer3+4`.
    pub hash: String,
}

macro_rules! bond_modes {
    ($($name:ident $number:literal $word:literal),*) => {
        /// Modes of the kernel's bonding. KERNEL: bonding.rst
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum BondMode { $($name),* }
        impl BondMode {
            /// All of them.
            pub const ALL: &[BondMode] = &[$(BondMode::$name),*];
            /// As `ip`, netplan and networkd write it.
            pub fn word(self) -> &'static str { match self { $(BondMode::$name => $word),* } }
            /// The mode of a word, or of a number as older files have it.
            pub fn from_word(word: &str) -> Option<BondMode> {
                match word { $($word | $number => Some(BondMode::$name),)* _ => None }
            }
        }
    };
}
bond_modes!(
    BalanceRr "0" "balance-rr", ActiveBackup "1" "active-backup", BalanceXor "2" "balance-xor",
    Broadcast "3" "broadcast", Lacp "4" "802.3ad", BalanceTlb "5" "balance-tlb", BalanceAlb "6" "balance-alb"
);

/// A link's place in a net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    pub net: String,
    pub address: IpAddr,
    /// Frames carry the net's VLAN number.
    pub tagged: bool,
}
