//! What a lab may be: every refusal names the numbers and a remedy.

use super::parts::SHARES_MAX;
use super::{Link, MTU, NODES_MAX, NodePlan, Share, Spec};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Slowest node, as a fraction of one core: the kernel's smallest quota (1 ms) in a period of 100 ms. Slower nodes run
/// in bursts too coarse to measure anything.
const SPEED_MIN: f64 = 0.01;

/// Least memory for a node's daemon and a small guest.
const MEM_MIN: u64 = 32 << 20;

/// Most cores of one node.
const CORES_MAX: usize = 64;

/// The scheduler's period unless another is requested, milliseconds. Ten times below the kernel's default, so that a slow
/// node stutters by milliseconds, not by tenths of a second.
pub const PERIOD_MS: u32 = 10;
/// KERNEL: `max_bw_quota_period` of kernel/sched/core.c: periods are 1 ms to 1 s.
const PERIOD_MS_MAX: u32 = 1000;

/// RFC 791: every host takes datagrams of 576 bytes; above 9216 no Ethernet card goes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 576..=9216;

/// Rates of a throttled disk, bytes per second.
const DISK_MIN: u64 = 64 << 10;

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
        if !self.places.is_empty() && self.places.len() != self.nodes {
            bail!(
                "{} names for {} nodes\nhint: give each node one",
                self.places.len(),
                self.nodes
            );
        }
        self.check_cores()?;
        self.check_network()?;
        if self.shares.len() > SHARES_MAX {
            bail!(
                "{} shared directories are too many\nhint: at most {SHARES_MAX}; share the directory above them",
                self.shares.len()
            );
        }
        self.shares.iter().try_for_each(Share::check)?;
        if let Some(rate) = self.disk.filter(|rate| *rate < DISK_MIN) {
            bail!(
                "{rate} bytes a second are too slow for a disk\nhint: --disk {}K or more",
                DISK_MIN >> 10
            );
        }
        match self.disk_channels {
            Some(_) if self.disk.is_none() => {
                bail!("channels of what rate?\nhint: --disk 5M --disk-channels 2")
            }
            Some(n) if !(1..=self.nodes).contains(&n) => bail!(
                "{n} storage channels for {} nodes\nhint: --disk-channels 1 to {0}",
                self.nodes
            ),
            _ => Ok(()),
        }
    }

    fn check_cores(&self) -> Result<()> {
        if self.cores.len() > self.nodes {
            bail!(
                "{} numbers of cores for {} nodes\nhint: give at most one --cores a node; fewer are repeated",
                self.cores.len(),
                self.nodes
            );
        }
        if let Some(n) = self.cores.iter().find(|n| !(1..=CORES_MAX).contains(*n)) {
            bail!("a node has 1 to {CORES_MAX} cores, not {n}\nhint: --cores 2");
        }
        let Some(period) = self.period_ms else {
            return Ok(());
        };
        if !(1..=PERIOD_MS_MAX).contains(&period) {
            bail!("a period is 1 to {PERIOD_MS_MAX} ms, not {period}\nhint: --period {PERIOD_MS}");
        }
        for i in 0..self.nodes {
            let power = self.speed(i).unwrap_or(1.0) * self.cores(i) as f64;
            // KERNEL: `min_bw_quota_period` of kernel/sched/core.c: a quota is a millisecond or more.
            if power * f64::from(period) < 1.0 {
                bail!(
                    "{power:.2} of a processor in a period of {period} ms is less than a millisecond, the kernel's smallest quota\nhint: --period {}",
                    (1.0 / power).ceil()
                );
            }
        }
        Ok(())
    }

    fn check_network(&self) -> Result<()> {
        self.link.check(self.nodes)?;
        if self.second_link && self.link.direct() {
            bail!(
                "direct links cannot be doubled\nhint: --links 2 works with a switch, a hub and `none`"
            );
        }
        if !MTU_RANGE.contains(&self.mtu) {
            bail!(
                "an MTU is {} to {} bytes, not {}\nhint: --mtu {MTU}, or --mtu 9000 for jumbo frames",
                MTU_RANGE.start(),
                MTU_RANGE.end(),
                self.mtu
            );
        }
        let hub = matches!(self.link, Link::Hub { .. });
        self.faults
            .iter()
            .try_for_each(|f| f.check(self.nodes, hub))
    }

    /// Refuses nodes of several cores that this machine cannot give their processor time, with the numbers. Nodes of one
    /// core may share a processor: their speeds are then upper limits.
    pub fn check_processors(&self, processors: usize) -> Result<()> {
        if self.cores.iter().all(|n| *n == 1) {
            return Ok(());
        }
        let plan = self.plan(0, &(0..processors).collect::<Vec<_>>(), PathBuf::new());
        let whole = processors as f64 + 0.005;
        if let Some(n) = plan.nodes.iter().find(|n| n.power() > whole) {
            bail!(
                "{}: {} cores of speed {} are {:.2} processors, and this machine has {processors}\nhint: --cores {processors}, or --speed {:.2}",
                n.name,
                n.cores,
                n.speed,
                n.power(),
                processors as f64 / n.cores as f64
            );
        }
        let all: f64 = plan.nodes.iter().map(NodePlan::power).sum();
        if all > whole {
            let cores: usize = plan.nodes.iter().map(|n| n.cores).sum();
            bail!(
                "the {cores} cores of all nodes are {all:.2} processors, and this machine has {processors}\nhint: --speed {:.2}, or fewer --nodes",
                processors as f64 / cores as f64
            );
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

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
        check(Spec { mtu: 9000, ..d() }, true);
        check(Spec { mtu: 100, ..d() }, false);
        check(
            Spec {
                link: "p2p".parse().unwrap(),
                second_link: true,
                ..d()
            },
            false,
        );
        check(
            Spec {
                disk: Some(1),
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
    fn nodes_of_several_cores_fit_the_machine() {
        let spec = |nodes, cores: &[usize], speeds: &[f64]| Spec {
            nodes,
            cores: cores.to_vec(),
            speeds: speeds.to_vec(),
            ..Spec::default()
        };
        let check = |s: &Spec, processors, good: bool| {
            let got = s.check().and_then(|()| s.check_processors(processors));
            assert_eq!(got.is_ok(), good, "{s:?}: {got:?}");
        };
        check(&spec(2, &[2], &[0.5]), 2, true);
        check(&spec(2, &[2], &[]), 2, true);
        check(&spec(2, &[2], &[1.0]), 2, false);
        check(&spec(1, &[4], &[0.5]), 2, true);
        check(&spec(1, &[4], &[0.6]), 2, false);
        check(&spec(4, &[], &[1.0]), 2, true);
        check(&spec(2, &[0], &[]), 2, false);
        check(&spec(1, &[1, 1], &[]), 2, false);
        let p = spec(3, &[2, 1], &[]).plan(1, &[4, 5, 6], "/armento".into());
        let got: Vec<_> = p
            .nodes
            .iter()
            .map(|n| (n.cores, &n.cpus[..], n.speed))
            .collect();
        let want: [(usize, &[usize], f64); 3] =
            [(2, &[4, 5], 0.6), (1, &[6], 0.6), (2, &[4, 5], 0.6)];
        assert_eq!(got, want);
        let few = spec(1, &[4], &[0.25]).plan(1, &[0, 1], "/armento".into());
        assert_eq!(
            (&few.nodes[0].cpus[..], few.nodes[0].power()),
            (&[0, 1][..], 1.0)
        );
    }

    #[test]
    fn periods_hold_the_smallest_quota() {
        let check = |ms, speed, good: bool| {
            let s = Spec {
                period_ms: Some(ms),
                speeds: vec![speed],
                ..Spec::default()
            };
            assert_eq!(s.check().is_ok(), good, "{ms} {speed}");
        };
        check(10, 0.25, true);
        check(4, 0.25, true);
        check(3, 0.25, false);
        check(0, 1.0, false);
        check(1001, 1.0, false);
    }
}
