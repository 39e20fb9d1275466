//! The requested lab: the arguments of the command line, checked, and the plan made from them.

mod check;
mod inventory;
mod link;
mod parts;

pub use check::{PERIOD_MS, check_name};
pub use inventory::{Imitated, Place, imitate};
pub use link::Link;
pub use parts::{CableFault, Share};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum nodes of one lab. Each costs a few processes and one CPU share; for more, the simulator is the right tool.
pub const NODES_MAX: usize = 64;

/// Ethernet's usual MTU, bytes.
pub const MTU: u32 = 1500;

/// A requested lab.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Also part of the names of cgroups and processes.
    pub name: String,
    pub nodes: usize,
    /// Names and addresses of the nodes; empty: n1 to n`nodes`, with addresses of the lab's own.
    pub places: Vec<Place>,
    /// Fractions of one core, repeated round the nodes; empty: an equal share of the
    /// machine's cores, at most one core each.
    pub speeds: Vec<f64>,
    /// Cores of a node, each of its speed, repeated round the nodes; empty: one. All cores of a node share one quota:
    /// a program that runs alone may use up to a whole processor of it.
    pub cores: Vec<usize>,
    /// Period in which a quota is given out, milliseconds, at most a second; `None`: 10, longer for nodes that are too
    /// slow for that.
    pub period_ms: Option<u32>,
    /// Memory of a node, bytes, its disk included.
    pub mem: Option<u64>,
    /// Memory of each node, repeated round the nodes; empty: `mem`.
    pub mems: Vec<u64>,
    pub link: Link,
    /// A second network of the same kind: eth1 of each node, 10.78.NET.x. Not for direct links.
    pub second_link: bool,
    /// Largest datagram on all links, bytes.
    pub mtu: u32,
    pub faults: Vec<CableFault>,
    /// Directories of this machine that all nodes see.
    pub shares: Vec<Share>,
    /// Bytes per second that a node may read, and write, on each disk of this machine; `None`: no limit. With control
    /// groups of version 1 direct I/O only.
    pub disk: Option<u64>,
    /// The rate of `disk` is that of each of so many channels, and the nodes take turns to have one of them; `None`: each
    /// node has its own. Control groups of version 1 only.
    pub disk_channels: Option<usize>,
    /// More settings of the daemons, lines of TOML.
    pub config: String,
    /// Start the daemons and join them into one farm.
    pub farm: bool,
    /// The `armento` binary; `None`: the running one.
    pub exe: Option<PathBuf>,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            name: "lab".into(),
            nodes: 4,
            places: Vec::new(),
            speeds: Vec::new(),
            mem: None,
            mems: Vec::new(),
            cores: Vec::new(),
            period_ms: None,
            config: String::new(),
            link: Link::Switch {
                bits: 1_000_000_000,
            },
            second_link: false,
            mtu: MTU,
            faults: Vec::new(),
            shares: Vec::new(),
            disk: None,
            disk_channels: None,
            farm: true,
            exe: None,
        }
    }
}

/// One node of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    pub name: String,
    pub addr: String,
    /// Address on the second link.
    #[serde(default)]
    pub second_addr: Option<String>,
    /// Lengths of the networks of both addresses.
    #[serde(default = "usual_prefix")]
    pub prefix: u8,
    #[serde(default = "usual_prefix")]
    pub second_prefix: u8,
    /// Of each core, as a fraction of a processor.
    pub speed: f64,
    #[serde(default = "one")]
    pub cores: usize,
    /// Processors of the machine that it runs on: as many as it has cores, or all.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Bytes.
    #[serde(default)]
    pub mem: Option<u64>,
    /// Storage channel that it shares with others, from 1.
    #[serde(default)]
    pub disk_channel: Option<usize>,
}

/// A lab's own networks.
fn usual_prefix() -> u8 {
    24
}

fn one() -> usize {
    1
}

fn usual_mtu() -> u32 {
    MTU
}

impl NodePlan {
    /// Whether this is its name or one of its addresses.
    pub fn is_called(&self, name: &str) -> bool {
        let second = self.second_addr.as_deref();
        name == self.name
            || name == self.addr
            || second.is_some_and(|a| a == name || name.strip_suffix("-eth1") == Some(&self.name))
    }

    /// Processor time of all cores together, in processors.
    pub fn power(&self) -> f64 {
        self.speed * self.cores as f64
    }
}

/// A checked spec with every choice made; stored as `lab.json` in the state directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub v: u32,
    pub name: String,
    /// Third number of the nodes' addresses, 10.77.NET.x.
    pub net: u8,
    pub link: Link,
    #[serde(default)]
    pub second_link: bool,
    #[serde(default = "usual_mtu")]
    pub mtu: u32,
    #[serde(default)]
    pub faults: Vec<CableFault>,
    #[serde(default)]
    pub shares: Vec<Share>,
    #[serde(default)]
    pub disk: Option<u64>,
    #[serde(default)]
    pub period_ms: Option<u32>,
    pub mem: Option<u64>,
    #[serde(default)]
    pub config: String,
    pub exe: PathBuf,
    pub nodes: Vec<NodePlan>,
}

impl Spec {
    fn speed(&self, i: usize) -> Option<f64> {
        self.speeds.get(i % self.speeds.len().max(1)).copied()
    }

    fn cores(&self, i: usize) -> usize {
        self.cores
            .get(i % self.cores.len().max(1))
            .copied()
            .unwrap_or(1)
    }

    /// Before: `check` passed. `cpus` are those this process may use; `net` is free.
    pub fn plan(&self, net: u8, cpus: &[usize], exe: PathBuf) -> Plan {
        let cores: usize = (0..self.nodes).map(|i| self.cores(i)).sum();
        let share = (cpus.len() as f64 / cores as f64).min(1.0);
        let mut first = 0;
        let nodes = (0..self.nodes)
            .map(|i| {
                let cores = self.cores(i);
                let from = first;
                first += cores;
                let place = self.places.get(i).cloned().unwrap_or_else(|| Place {
                    name: format!("n{}", i + 1),
                    addr: format!("10.77.{net}.{}", i + 1),
                    prefix: usual_prefix(),
                    second: self
                        .second_link
                        .then(|| (format!("10.78.{net}.{}", i + 1), usual_prefix())),
                });
                let (second_addr, second_prefix) = place.second.unzip();
                NodePlan {
                    name: place.name,
                    addr: place.addr,
                    prefix: place.prefix,
                    second_addr,
                    second_prefix: second_prefix.unwrap_or_else(usual_prefix),
                    speed: self.speed(i).unwrap_or(share),
                    cores,
                    cpus: (from..from + cores.min(cpus.len()))
                        .map(|n| cpus[n % cpus.len()])
                        .collect(),
                    mem: self
                        .mems
                        .get(i % self.mems.len().max(1))
                        .copied()
                        .or(self.mem),
                    disk_channel: self.disk_channels.map(|all| i % all.max(1) + 1),
                }
            })
            .collect();
        Plan {
            v: 1,
            name: self.name.clone(),
            net,
            link: self.link,
            second_link: self.second_link,
            mtu: self.mtu,
            faults: self.faults.clone(),
            shares: self.shares.clone(),
            disk: self.disk,
            period_ms: self.period_ms,
            mem: self.mem,
            config: self.config.clone(),
            exe,
            nodes,
        }
    }
}

/// Bytes: `512M`, `2G`, `1048576`.
pub fn parse_size(s: &str) -> Result<u64, String> {
    let units = [("", 0), ("k", 10), ("m", 20), ("g", 30)];
    scaled(s, &units, |n, shift| n.checked_mul(1 << shift))
        .ok_or("use a size like 512M or 2G".into())
}

/// Bits per second: `100mbit`, `4gbit`, `64000`.
pub fn parse_rate(s: &str) -> Result<u64, String> {
    let units = [("", 0), ("bit", 0), ("kbit", 3), ("mbit", 6), ("gbit", 9)];
    scaled(s, &units, |n, power| n.checked_mul(10u64.pow(power)))
        .ok_or("use a rate like 250mbit or 4gbit".into())
}

fn scaled(s: &str, units: &[(&str, u32)], apply: impl Fn(u64, u32) -> Option<u64>) -> Option<u64> {
    let at = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let (digits, unit) = s.split_at(at);
    let unit = unit.to_ascii_lowercase();
    let &(_, scale) = units.iter().find(|(u, _)| *u == unit)?;
    apply(digits.parse().ok()?, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("7"), Ok(7));
        assert!(parse_size("M").is_err());
        assert!(parse_size("99999999999G").is_err());
        assert_eq!(parse_rate("4gbit"), Ok(4_000_000_000));
        assert_eq!(parse_rate("100Mbit"), Ok(100_000_000));
        assert!(parse_rate("4 gigs").is_err());
    }

    #[test]
    fn plans_repeat_speeds_and_share_cpus() {
        let s = Spec {
            speeds: vec![0.5, 0.25],
            nodes: 3,
            ..Spec::default()
        };
        let p = s.plan(7, &[2, 3], "/armento".into());
        let got: Vec<_> = p
            .nodes
            .iter()
            .map(|n| (&n.name[..], &n.addr[..], n.speed, n.cpus[0]))
            .collect();
        let want = [
            ("n1", "10.77.7.1", 0.5, 2),
            ("n2", "10.77.7.2", 0.25, 3),
            ("n3", "10.77.7.3", 0.5, 2),
        ];
        assert_eq!(got, want);
        let even = Spec {
            nodes: 4,
            ..Spec::default()
        }
        .plan(1, &[0, 1], "/armento".into());
        assert!(even.nodes.iter().all(|n| n.speed == 0.5));
    }
}
