//! Policies by name, so that published experiments can be repeated.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Round robin at the start, never moved later: as PVM does.
    Static,
    /// Even counts weighted by speed, moved while they run: as MOSIX does.
    Mosix,
    /// Every core in use, equal progress for all: processes rotate where loads cannot be even.
    Armento,
    /// Everything stays where it was started.
    None,
}

/// Added age limit of load data for each node beyond a thousand: there it is on its way for longer (RFD 6). 60 s at ten
/// thousand, when the vector forgets …
const AGE_MS_EACH: u64 = 6;
/// … and this many more nodes allow one more move in progress from one home: what they can accept grows with them.
const FLIGHT_NODES: usize = 16;

/// The number of decisions in the life of the youngest process: one in twice the time that is worth a rotation
/// (`turns_each`) …
const PAUSES_EACH: u64 = 64;
/// … and no less often than this.
const PAUSE_MS_MAX: u64 = 500;

/// A policy with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub kind: Kind,
    /// How much of its own demand a process must find free at the target before it goes, percent.
    ///
    /// Between equal nodes every value above 100 and below 200 means: move when the counts differ by two or more, never
    /// when by one, so a move is never followed by its reverse. The part above 100 absorbs the noise of measured
    /// background work. PAPER: 130 is the default of Kerrighed's MOSIX-derived balancer (its `stab_factor`).
    pub margin_percent: u64,
    /// Speeds that differ by no more than this count as equal, percent: one machine measured itself at 540 and at 650
    /// million rounds a second, beside a busy sibling thread and alone (`sense`), and process counts must not depend on
    /// such noise.
    pub speed_noise_percent: u64,
    /// The same where both report the same kind of processor and share of it. Measured: within one minute one machine
    /// needed 0.56 and 0.88 s for the same encoding, depending on its neighbours.
    pub speed_alike_percent: u64,
    /// A process stays at least this long after its arrival, and after its start. PAPER: MOSIX lets a process stay
    /// about a second before it is considered.
    pub residence_ms: u64,
    /// … and until it has used so much CPU time: what it still needs is about what it has used, and one that was just
    /// placed at its exec is not moved for less than the move costs.
    pub used_ms_min: u64,
    /// At most one decision in this time. PAPER: MOSIX computes loads once a second. A tenth less than that, so that
    /// jitter of a daemon's one-second clock does not skip every other decision.
    pub period_ms: u64,
    /// … but only this long after the last one if a process of this home has ended since: long enough for a keeper to
    /// start, and for the ends of a burst to be seen together.
    pub prompt_ms: u64,
    /// Load data older than this is not used to choose a target, in a farm of up to a few thousand nodes.
    pub age_ms_max: u64,
    /// Memory that is kept free on every node, thousandths of its total.
    pub reserve_permille: u64,
    /// … and at least this, KiB, but no more than an eighth of it: a node of a gigabyte with its last 50 MiB in use
    /// rereads its own programs from the disk again and again, and stops responding (measured, Linux 6.12 without
    /// swap).
    pub reserve_min_kib: u64,
    /// Limit of moves and placements in progress from this home, for all nodes together, in a farm of up to a thousand.
    pub flights_max: usize,
    /// Guests that this node accepts for each core.
    pub guests_per_core_max: u64,
    /// The work of a forwarded call at both ends, microseconds of a standard core, without the round trip (11 to 30
    /// measured with both ends busy, doubled for a real network).
    pub forward_us: u64,
    /// … and of a call that is answered before home makes it, of both ends. Measured: 13 (`docs/measurements/files.md`).
    pub post_us: u64,
    /// Speed of the network between nodes, Mbit/s.
    pub link_mbit: u64,
    /// `mosix`: a process that would lose more than this to forwarding stays home, thousandths of its time.
    pub forward_permille_max: u64,
    /// Weight of a guest where a process of the node itself has 100, on all nodes: at most 100.
    pub guest_weight: u64,
    /// The cost of a move for both ends, microseconds of a standard core, and the additional cost of each MiB of
    /// memory.
    pub move_us: u64,
    pub move_us_per_mib: u64,
    /// … and of the first move of a process to a node: a host starts there. Measured: 12 ms for both, and an empty host
    /// that is left behind costs some more.
    pub first_us: u64,
    /// A fresh program that will probably use no more CPU time than this starts at home, milliseconds. Measured: a start
    /// elsewhere costs home 7 ms and the node 8, and each of the fifty calls that a small program sends home 0.1.
    pub short_ms: u64,
    /// Processes rotate for a difference of at least so much of a process's time …
    pub turn_ms_min: u64,
    /// … and of this part of its age: its remaining time is unknown, so that its final loss is a share of the whole.
    /// Measured: 64 left a hundredth more of N = 17 (RFD 5).
    pub turns_each: u64,
    /// A free core that is slower than the process's present share is used if the move costs at most this part of the
    /// process's remaining time: the process will rotate there, and each rotation costs that again (RFD 5).
    pub slower_each: u64,
    /// Budget for rotations, thousandths of the power in use.
    pub turns_permille: u64,
    /// The wanted fill of a node with a fresh program, percent of its cores and memory, if the program would run
    /// equally fast on several nodes: 0 spreads, 100 packs, which keeps whole nodes free for large programs.
    pub packing_percent: u64,
}

impl Policy {
    pub fn of(kind: Kind) -> Policy {
        Policy {
            kind,
            margin_percent: 130,
            speed_noise_percent: 20,
            speed_alike_percent: 100,
            residence_ms: 1000,
            used_ms_min: 0,
            period_ms: 900,
            prompt_ms: 100,
            age_ms_max: 15_000,
            reserve_permille: 50,
            reserve_min_kib: 128 << 10,
            flights_max: 64,
            guests_per_core_max: 256,
            forward_us: 60,
            post_us: 15,
            link_mbit: 1000,
            forward_permille_max: 500,
            guest_weight: 100,
            move_us: 6_000,
            move_us_per_mib: 1_000,
            first_us: 14_000,
            short_ms: 20,
            turn_ms_min: 200,
            turns_each: 128,
            slower_each: 64,
            turns_permille: 12,
            packing_percent: 0,
        }
        .tuned()
    }

    fn tuned(mut self) -> Policy {
        if self.kind == Kind::Armento {
            (self.period_ms, self.prompt_ms, self.residence_ms) = (80, 40, 100);
            self.used_ms_min = 20;
        }
        self
    }

    /// Time after one decision until the next is worth its cost, if no process of this home has ended: when the
    /// youngest has lived long, differences that are worth a move develop slowly. `flying`: moves in progress; when
    /// they are many, others wait for their end.
    pub fn pause_ms(&self, youngest_ms: u64, flying: usize) -> u64 {
        if flying * 2 >= self.flights_max {
            return self.period_ms;
        }
        (youngest_ms / PAUSES_EACH).clamp(self.period_ms, PAUSE_MS_MAX.max(self.period_ms))
    }

    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Memory that stays free on a node with that total, KiB: a share, but no more than a gigabyte, which is enough to
    /// absorb growth until the next decision and would only be wasted beyond.
    pub fn reserve_kib(&self, total_kib: u64) -> u64 {
        let least = self.reserve_min_kib.min(total_kib / 8);
        let share = total_kib / 1000 * self.reserve_permille;
        share.max(least).min(1 << 20)
    }

    /// [`Policy::age_ms_max`] for a farm of this many known nodes.
    pub(crate) fn age_ms_max(&self, nodes: usize) -> u64 {
        self.age_ms_max.max(nodes as u64 * AGE_MS_EACH)
    }

    /// [`Policy::flights_max`] for a farm of this many known nodes.
    pub fn flights_max(&self, nodes: usize) -> usize {
        self.flights_max.max(nodes / FLIGHT_NODES)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::of(Kind::Armento)
    }
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Static, Kind::Mosix, Kind::Armento, Kind::None];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Static => "static",
            Kind::Mosix => "mosix",
            Kind::Armento => "armento",
            Kind::None => "none",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Nothing was changed; the previous policy remains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{0}`: use static, mosix, armento or none")]
pub struct UnknownPolicy(pub String);

impl FromStr for Kind {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Kind, UnknownPolicy> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        name.parse().map(Policy::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_parsed_by_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Policy>().map(|p| p.kind), Ok(kind));
        }
        let refused = "slurm".parse::<Policy>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "there is no policy `slurm`: use static, mosix, armento or none"
        );
    }
}
