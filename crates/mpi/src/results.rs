//! What our programs print: a line of JSON each.

use serde::{Deserialize, Serialize};

/// `flops`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flops {
    pub np: usize,
    pub points: u64,
    /// Mean time of process 0.
    pub s: f64,
    /// Of all processes together.
    pub mflops: f64,
    /// Of each process by its own clock.
    pub nodes: Vec<f64>,
    /// Distance from pi.
    pub error: f64,
}

/// One message size of `transfer`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rate {
    pub bytes: u64,
    pub n: u64,
    pub s: f64,
    pub mb_s: f64,
}

/// Process 0 and one other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partner {
    pub rank: usize,
    pub latency_s: f64,
    pub one: Vec<Rate>,
    pub both: Vec<Rate>,
}

/// `transfer`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub np: usize,
    pub tick_s: f64,
    pub partners: Vec<Partner>,
}

/// One topology of `nettest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Topology {
    pub label: String,
    pub channels: u64,
    pub repeats: u64,
    /// With those before the measurement.
    pub all_repeats: u64,
    pub s: f64,
    pub mb_s: f64,
}

/// `nettest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nettest {
    pub np: usize,
    pub bytes: u64,
    pub topologies: Vec<Topology>,
}

/// One operation of `mpitest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub name: String,
    /// Length of the array; 0: it has none.
    pub integers: u64,
    pub repeats: u64,
    pub operation_s: f64,
    pub synchronisation_s: f64,
    pub s: f64,
}

/// `mpitest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mpitest {
    pub np: usize,
    pub operations: Vec<Operation>,
    /// Number of results that were checked, all of them right.
    pub checked: u64,
}

/// `nfstest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nfstest {
    pub np: usize,
    pub bytes: u64,
    pub checks: u64,
    pub wrong: u64,
    pub write_mb_s: f64,
    pub read_other_mb_s: f64,
    pub read_own_mb_s: f64,
    pub read_one_mb_s: f64,
    pub create_per_s: f64,
    pub stat_per_s: f64,
    pub remove_per_s: f64,
}

/// `integral`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Integral {
    pub np: usize,
    pub points: u64,
    pub s: f64,
    /// Of all integrals: the same wherever the processes ran.
    pub sum: f64,
    pub error: f64,
    pub busy_s: Vec<f64>,
}

/// `halo`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Halo {
    pub np: usize,
    pub grid: [usize; 3],
    pub side: u64,
    pub steps: u64,
    pub s: f64,
    pub exchange_s: f64,
    pub sent_bytes: u64,
    pub checked: u64,
    pub sum: f64,
    /// A weighted sum of the last cells: the same wherever the processes ran.
    pub print: f64,
}

impl Transfer {
    /// The mean over all partners of one size.
    pub fn mean(&self, both: bool, bytes: u64) -> Option<f64> {
        let of = |p: &Partner| {
            let all = if both { &p.both } else { &p.one };
            all.iter().find(|r| r.bytes == bytes).map(|r| r.mb_s)
        };
        let all: Vec<f64> = self.partners.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// Sizes that were measured.
    pub fn sizes(&self) -> Vec<u64> {
        let first = self.partners.first();
        first.map_or_else(Vec::new, |p| p.one.iter().map(|r| r.bytes).collect())
    }
}

impl Nettest {
    /// Throughput by label.
    pub fn get(&self, label: &str) -> Option<f64> {
        let found = self.topologies.iter().find(|t| t.label == label);
        found.map(|t| t.mb_s)
    }

    /// Bytes of messages that crossed the network, by the definition.
    pub fn message_bytes(&self) -> u64 {
        let one = |t: &Topology| 2 * self.bytes * t.channels * t.all_repeats;
        self.topologies.iter().map(one).sum()
    }
}
