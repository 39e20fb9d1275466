//! Measurements.

use super::state::World;
use super::things::{Proc, Traffic};
use armento_gossip::Packet;

/// A datagram's own bytes. KERNEL: ip(7), udp(7): 20 and 8; `noded/src/peer/datagram.rs`: 18.
const FRAME_BYTES: u64 = 46;
/// Resolution of ages, milliseconds.
const STEP_MS: u64 = 100;
/// … up to this limit: nothing older is kept.
const STEPS: usize = 601;

/// Age of the nodes' information about each other, over all ordered pairs of living nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ages {
    pub pairs: u64,
    /// Pairs in which one has no information about the other: it has received none for a minute, or never.
    pub unknown: u64,
    /// Of the other pairs, in periods of a second.
    pub mean_s: f64,
    /// Of all pairs; unknown ones count as older than all others. `None`: the percentile is an unknown one.
    pub p99_s: Option<f64>,
}

impl Traffic {
    pub(super) fn count(&mut self, packet: &Packet) {
        self.letters += 1;
        self.entries += packet.len() as u64;
        self.bytes += packet.bytes() as u64 + FRAME_BYTES;
    }
}

impl World {
    /// Number of processes that run on each node, or go there.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        let alive = |p: &&Proc| p.ended_us.is_none();
        for p in self.procs.iter().filter(alive) {
            counts[p.flight.unwrap_or(p.place)] += 1;
        }
        counts
    }

    /// Number of processes on each node now.
    pub fn present(&self) -> Vec<usize> {
        self.here.iter().map(|here| here.len()).collect()
    }

    /// Moves done so far.
    pub fn moves(&self) -> u64 {
        self.out.moves
    }

    /// Memory in use on each node, KiB.
    pub fn memory_kib(&self) -> &[u64] {
        &self.used_kib
    }

    /// Traffic since the last call.
    pub fn traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    pub fn ages(&self) -> Ages {
        let (mut steps, mut unknown, mut sum_ms) = (vec![0u64; STEPS], 0, 0);
        let up = |i: &usize| self.daemons[*i].up;
        for i in (0..self.names.len()).filter(up) {
            let (table, now) = (&self.daemons[i].table, self.tick(i));
            for other in (0..self.names.len()).filter(|o| *o != i).filter(up) {
                let Some(ms) = table.age_ms(other as u32, now) else {
                    unknown += 1;
                    continue;
                };
                sum_ms += ms;
                steps[((ms / STEP_MS) as usize).min(STEPS - 1)] += 1;
            }
        }
        let known: u64 = steps.iter().sum();
        let pairs = known + unknown;
        let p99 = (pairs * 99).div_ceil(100);
        let mut so_far = 0;
        let step = steps.iter().position(|n| {
            so_far += n;
            so_far >= p99
        });
        Ages {
            pairs,
            unknown,
            mean_s: sum_ms as f64 / 1000.0 / known.max(1) as f64,
            p99_s: step.map(|step| ((step as u64 + 1) * STEP_MS) as f64 / 1000.0),
        }
    }

    /// Number of other nodes of which a node has information.
    pub fn known_to(&self, node: usize) -> usize {
        let (table, now) = (&self.daemons[node].table, self.tick(node));
        let knows = |i: &usize| *i != node && table.age_ms(*i as u32, now).is_some();
        (0..self.names.len()).filter(knows).count()
    }

    /// Number of other nodes with information on `node` from `since_us` or later.
    pub fn aware_of(&self, node: usize, since_us: u64) -> usize {
        let aware = |i: &usize| {
            let age = self.daemons[*i].table.age_ms(node as u32, self.tick(*i));
            *i != node && age.is_some_and(|ms| ms * 1000 <= self.now - since_us)
        };
        (0..self.names.len()).filter(aware).count()
    }
}
