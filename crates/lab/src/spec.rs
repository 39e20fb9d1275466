//! The requested lab: the arguments of the command line, checked, and the plan made from them.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum nodes of one lab. Each costs a few processes and one CPU share; for more, the simulator is the right tool.
pub const NODES_MAX: usize = 64;

/// Slowest node, as a fraction of one core: the kernel's smallest quota (1 ms) in a period of 100 ms. Slower nodes run
/// in bursts too coarse to measure anything.
const SPEED_MIN: f64 = 0.01;

/// Least memory for a node's daemon and a small guest.
const MEM_MIN: u64 = 32 << 20;

/// Rates that tbf and veth can keep on one machine.
const RATE_MIN: u64 = 64_000;
const RATE_MAX: u64 = 40_000_000_000;

/// The network between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// A switch with this many bits per second on every port, each way.
    Switch { bits: u64 },
    /// A bridge without limits.
    None,
}

impl FromStr for Link {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "switch100" => Ok(Link::Switch { bits: 100_000_000 }),
            "switch1000" => Ok(Link::Switch {
                bits: 1_000_000_000,
            }),
            "none" => Ok(Link::None),
            _ => Err("use switch100, switch1000 or none (any other rate: --rate 4gbit)".into()),
        }
    }
}

/// A requested lab.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Also part of the names of cgroups and processes.
    pub name: String,
    pub nodes: usize,
    /// Fractions of one core, repeated round the nodes; empty: an equal share of the
    /// machine's cores, at most one core each.
    pub speeds: Vec<f64>,
    /// Memory of a node, bytes, its disk included.
    pub mem: Option<u64>,
    /// Memory of each node, repeated round the nodes; empty: `mem`.
    pub mems: Vec<u64>,
    pub link: Link,
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
            speeds: Vec::new(),
            mem: None,
            mems: Vec::new(),
            config: String::new(),
            link: Link::Switch {
                bits: 1_000_000_000,
            },
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
    pub speed: f64,
    pub cpu: usize,
    /// Bytes.
    #[serde(default)]
    pub mem: Option<u64>,
}

/// A checked spec with every choice made; stored as `lab.json` in the state directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub v: u32,
    pub name: String,
    /// Third number of the nodes' addresses, 10.77.NET.x.
    pub net: u8,
    pub link: Link,
    pub mem: Option<u64>,
    #[serde(default)]
    pub config: String,
    pub exe: PathBuf,
    pub nodes: Vec<NodePlan>,
}

impl Spec {
    /// Refuses what cannot be built, with a hint.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        if !(1..=NODES_MAX).contains(&self.nodes) {
            bail!(
                "a lab has 1 to {NODES_MAX} nodes, not {}\nhint: --nodes 4",
                self.nodes
            );
        }
        if self.speeds.len() > self.nodes {
            bail!(
                "{} speeds for {} nodes\nhint: give at most one --speed a node; fewer are repeated",
                self.speeds.len(),
                self.nodes
            );
        }
        if let Some(s) = self.speeds.iter().find(|s| !(SPEED_MIN..=1.0).contains(*s)) {
            bail!(
                "speed {s} is not a fraction of one core\nhint: use {SPEED_MIN} to 1.0, e.g. --speed 0.25"
            );
        }
        if let Some(m) = self.mem.iter().chain(&self.mems).find(|m| **m < MEM_MIN) {
            bail!(
                "{m} bytes are too little for a node\nhint: --mem {}M or more",
                MEM_MIN >> 20
            );
        }
        match self.link {
            Link::Switch { bits } if !(RATE_MIN..=RATE_MAX).contains(&bits) => {
                bail!(
                    "rate {bits} bit/s is out of range\nhint: use 64kbit to 40gbit, or --link none"
                )
            }
            _ => Ok(()),
        }
    }

    /// Before: `check` passed. `cpus` are those this process may use; `net` is free.
    pub fn plan(&self, net: u8, cpus: &[usize], exe: PathBuf) -> Plan {
        let share = (cpus.len() as f64 / self.nodes as f64).min(1.0);
        let nodes = (0..self.nodes)
            .map(|i| NodePlan {
                name: format!("n{}", i + 1),
                addr: format!("10.77.{net}.{}", i + 1),
                speed: self
                    .speeds
                    .get(i % self.speeds.len().max(1))
                    .copied()
                    .unwrap_or(share),
                cpu: cpus[i % cpus.len()],
                mem: self
                    .mems
                    .get(i % self.mems.len().max(1))
                    .copied()
                    .or(self.mem),
            })
            .collect();
        Plan {
            v: 1,
            name: self.name.clone(),
            net,
            link: self.link,
            mem: self.mem,
            config: self.config.clone(),
            exe,
            nodes,
        }
    }
}

/// 1 to 20 of a-z, 0-9 and -, beginning with a letter or digit.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=20).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-') {
        return Ok(());
    }
    bail!("`{name}` is no name for a lab\nhint: use 1 to 20 of a-z, 0-9 and -")
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
    fn specs_out_of_range_are_refused_with_a_hint() {
        let check = |s: Spec, good: bool| match s.check() {
            Ok(()) => assert!(good, "{s:?}"),
            Err(e) => assert!(!good && e.to_string().contains("\nhint: "), "{s:?}: {e}"),
        };
        let d = Spec::default;
        check(d(), true);
        check(Spec { nodes: 0, ..d() }, false);
        check(Spec { nodes: 65, ..d() }, false);
        check(Spec { nodes: 64, ..d() }, true);
        check(
            Spec {
                speeds: vec![0.1, 0.2],
                ..d()
            },
            true,
        );
        check(
            Spec {
                speeds: vec![0.1; 5],
                ..d()
            },
            false,
        );
        check(
            Spec {
                speeds: vec![1.5],
                ..d()
            },
            false,
        );
        check(
            Spec {
                speeds: vec![f64::NAN],
                ..d()
            },
            false,
        );
        check(
            Spec {
                mem: Some(1),
                ..d()
            },
            false,
        );
        check(
            Spec {
                link: Link::Switch { bits: 1 },
                ..d()
            },
            false,
        );
        check(
            Spec {
                name: "../x".into(),
                ..d()
            },
            false,
        );
        check(
            Spec {
                name: String::new(),
                ..d()
            },
            false,
        );
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
            .map(|n| (&n.name[..], &n.addr[..], n.speed, n.cpu))
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
