//! A node's report about itself.

use crate::CpuSet;
use armento_model::NodeName;
use serde::{Deserialize, Serialize};

/// A moment on this node's own monotonic clock, milliseconds. Moments of two nodes are never compared: ages are sent
/// instead.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tick(pub u64);

impl Tick {
    /// Milliseconds from `earlier` to here; 0 if that is later.
    pub fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub fn plus(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }
}

/// How a node's calls and bulk streams are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    #[default]
    Tls,
    Plain,
}

impl Wire {
    pub fn name(self) -> &'static str {
        match self {
            Wire::Tls => "tls",
            Wire::Plain => "plain",
        }
    }
}

/// One core of this speed counts as 1 (openMosix: a 400 MHz Pentium II had 10000).
pub const STANDARD_SPEED: u32 = 10_000;

/// One node at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub node: NodeName,
    /// Incarnation: increases with every start of that node's daemon.
    pub boot: u64,
    /// Counts that incarnation's entries; set by [`crate::Vector::set_own`].
    pub seq: u64,
    /// Runnable work, hundredths of a process, smoothed; not divided by speed or cores.
    pub load: u32,
    /// Threads that are runnable at this moment.
    pub runnable: u32,
    /// Bodies of other homes on this node.
    pub guests: u32,
    /// It accepts no guests for now.
    pub shut: bool,
    /// … because an administrator drains it: its guests leave, too.
    pub drained: bool,
    pub mem_free_kib: u64,
    pub mem_total_kib: u64,
    /// Speed of one core, [`STANDARD_SPEED`] = standard.
    pub speed: u32,
    /// Two nodes of the same kind have the same processor and the same share of it: differences in their speeds are
    /// mostly noise of the measurement. 0: unlike any other.
    pub kind: u32,
    pub cores: u32,
    /// How much of a whole core each of them is, thousandths: less under a quota.
    pub share_permille: u32,
    pub cpu: CpuSet,
    pub wire: Wire,
    /// The daemon's version.
    pub version: String,
}

impl Entry {
    /// An empty entry, to be filled by the sampler.
    pub fn new(node: NodeName, boot: u64) -> Entry {
        Entry {
            node,
            boot,
            seq: 0,
            load: 0,
            runnable: 0,
            guests: 0,
            shut: false,
            drained: false,
            mem_free_kib: 0,
            mem_total_kib: 0,
            speed: STANDARD_SPEED,
            kind: 0,
            cores: 1,
            share_permille: 1000,
            cpu: CpuSet::default(),
            wire: Wire::default(),
            version: String::new(),
        }
    }

    /// Power in thousandths of a standard processor.
    pub fn power_milli(&self) -> u64 {
        u64::from(self.speed) * u64::from(self.cores.max(1)) * 1000 / u64::from(STANDARD_SPEED)
    }

    /// Speed of a whole core if each of these has `speed`: what a process does in a second of CPU time.
    pub fn core_speed_of(&self, speed: u32) -> u64 {
        u64::from(speed) * 1000 / u64::from(self.share_permille.max(1))
    }

    /// Load as shown to users: 1.0 = one process per standard processor.
    pub fn load_over_power(&self) -> f64 {
        f64::from(self.load) * 10.0 / self.power_milli().max(1) as f64
    }
}

/// An entry as received by this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub entry: Entry,
    /// Time since the node reported it, milliseconds.
    pub age_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_load_is_divided_by_power() {
        let mut e = Entry::new("n1".parse().unwrap(), 1);
        e.load = 300;
        assert_eq!(e.load_over_power(), 3.0);
        e.speed = 5000;
        assert_eq!(e.load_over_power(), 6.0);
        e.cores = 4;
        assert_eq!(e.load_over_power(), 1.5);
    }
}
