//! The faults of a campaign, with time and place: all derived from the seed.

use armento_migrate::failpoint::ANY;
use armento_migrate::phase::Failpoint;
use serde::{Serialize, Serializer};

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
pub struct Dice(u64);

impl Dice {
    /// The `n`th stream of a seed.
    pub fn new(seed: u64, n: u64) -> Dice {
        let mut mixed = Dice(n);
        Dice(seed ^ mixed.roll())
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    pub fn percent(&mut self, n: u64) -> bool {
        self.within(0, 99) < n
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0, all.len() as u64 - 1) as usize]
    }
}

/// Nodes of the campaign; programs start on the first.
pub const NODES: usize = 3;
/// A tree without its home is frozen and ended after these times, milliseconds.
pub const FREEZE_MS: u64 = 1000;
pub const DEAD_MS: u64 = 3000;
/// A pause that must not kill any process, and one that ends trees, milliseconds. A machine full of moves is late: the
/// first stays well below [`DEAD_MS`].
pub const SHORT_MS: (u64, u64) = (50, 700);
pub const LONG_MS: (u64, u64) = (4000, 6000);
/// Number of delayed threads in each life.
const LATE: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Kill,
    Freeze {
        ms: u64,
    },
    /// The thread that passes the failpoint waits, as do those that need its result.
    Stall {
        ms: u64,
    },
}

impl What {
    /// Whether a process may die of it.
    pub fn deadly(self) -> bool {
        match self {
            What::Kill => true,
            What::Freeze { ms } | What::Stall { ms } => ms > SHORT_MS.1,
        }
    }

    pub fn roll(dice: &mut Dice, point: Option<Failpoint>) -> What {
        let of = dice.within(0, 99);
        let (low, high) = match of {
            0..40 => return What::Kill,
            40..90 => SHORT_MS,
            _ => LONG_MS,
        };
        let ms = dice.within(low, high);
        match of.is_multiple_of(2) && point.is_some() {
            true => What::Stall { ms },
            false => What::Freeze { ms },
        }
    }
}

/// One fault of a keeper, or of a host of its tree.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub home: bool,
    /// `None`: at no particular failpoint.
    #[serde(serialize_with = "as_file")]
    pub point: Option<Failpoint>,
    pub what: What,
    /// The fault is armed at its failpoint from then on, counted from the start of the program.
    pub at_ms: u64,
}

/// Failpoints of moves that keepers pass, or hosts.
pub fn points(home: bool) -> Vec<Failpoint> {
    let all: Vec<Failpoint> = match home {
        true => Failpoint::of_keeper().collect(),
        false => Failpoint::of_host().collect(),
    };
    all.into_iter().filter(|p| p.step().is_none()).collect()
}

fn file_of(point: Option<Failpoint>) -> &'static str {
    point.map_or(ANY, Failpoint::name)
}

fn as_file<S: Serializer>(point: &Option<Failpoint>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(file_of(*point))
}

impl Fault {
    /// The name of the file that sets it.
    pub fn file(&self) -> &'static str {
        file_of(self.point)
    }

    fn roll(dice: &mut Dice) -> Fault {
        let home = dice.percent(50);
        let point = match dice.percent(30) {
            true => None,
            false => Some(dice.pick(&points(home))),
        };
        Fault {
            home,
            point,
            what: What::roll(dice, point),
            at_ms: dice.within(100, 2500),
        }
    }

    /// A delayed thread: its work may have been given up, and begun again by another.
    fn late(dice: &mut Dice) -> Fault {
        let home = dice.percent(25);
        Fault {
            home,
            point: Some(dice.pick(&points(home))),
            what: What::Stall {
                ms: dice.within(SHORT_MS.0, SHORT_MS.1),
            },
            at_ms: dice.within(100, 2500),
        }
    }
}

/// One program, from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    pub number: u64,
    pub storm_ms: u64,
    pub storm_seed: u64,
    /// Its links run through a proxy that breaks at random bytes.
    pub cable: bool,
    pub faults: Vec<Fault>,
}

impl Life {
    pub fn new(seed: u64, number: u64) -> Life {
        let mut dice = Dice::new(seed, 2 * number);
        let faults = match dice.within(0, 9) {
            0..3 => 0,
            3..8 => 1,
            _ => 2,
        };
        let mut life = Life {
            number,
            storm_ms: dice.within(20, 120),
            storm_seed: dice.within(0, 1 << 32),
            cable: dice.percent(25),
            faults: (0..faults).map(|_| Fault::roll(&mut dice)).collect(),
        };
        life.faults
            .extend((0..LATE).map(|_| Fault::late(&mut dice)));
        life
    }
}

/// A fault of a whole node, and so of all processes on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFault {
    /// Killed, and restarted after that.
    Daemon {
        down_ms: u64,
    },
    DaemonFrozen {
        ms: u64,
    },
    /// All processes of the node are frozen.
    Frozen {
        ms: u64,
    },
    /// Its network is disconnected.
    Cut {
        ms: u64,
    },
    /// What is sent to it is lost.
    Deaf {
        ms: u64,
    },
    /// What it sends is lost.
    Mute {
        ms: u64,
    },
    /// It sends 2 Mbit/s.
    Slow {
        ms: u64,
    },
    /// The disks of its daemon and of files that are to be kept are full.
    Full {
        ms: u64,
    },
    /// All processes of the node are killed, and nothing starts again for so long.
    Off {
        ms: u64,
    },
    /// All processes of the node are killed; then its daemon starts again. Never on the first node: its programs would
    /// die together with the processes that judge them.
    Killed,
}

impl NodeFault {
    /// Whether a program may die of it.
    pub fn deadly(self) -> bool {
        match self {
            NodeFault::Daemon { .. }
            | NodeFault::DaemonFrozen { .. }
            | NodeFault::Slow { .. }
            | NodeFault::Full { .. } => false,
            NodeFault::Frozen { ms }
            | NodeFault::Cut { ms }
            | NodeFault::Deaf { ms }
            | NodeFault::Mute { ms } => ms > SHORT_MS.1,
            NodeFault::Killed | NodeFault::Off { .. } => true,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            NodeFault::Daemon { .. } => "daemon killed",
            NodeFault::DaemonFrozen { .. } => "daemon frozen",
            NodeFault::Frozen { .. } => "node frozen",
            NodeFault::Cut { .. } => "node cut off",
            NodeFault::Deaf { .. } => "node hears nothing",
            NodeFault::Mute { .. } => "node is not heard",
            NodeFault::Slow { .. } => "node sends slowly",
            NodeFault::Full { .. } => "disk full",
            NodeFault::Killed => "node killed",
            NodeFault::Off { .. } => "node off",
        }
    }
}

/// The `n`th fault of a node: the delay after the one before, the node, the fault.
pub fn node_fault(seed: u64, n: u64) -> (u64, usize, NodeFault) {
    let mut dice = Dice::new(seed, 2 * n + 1);
    let node = dice.within(0, NODES as u64 - 1) as usize;
    let (low, high) = if dice.percent(20) { LONG_MS } else { SHORT_MS };
    let ms = dice.within(low, high);
    let what = match dice.within(0, 4) {
        0 => NodeFault::Daemon {
            down_ms: ms.min(2000),
        },
        1 => NodeFault::DaemonFrozen { ms },
        2 => NodeFault::Frozen { ms },
        3 => NodeFault::Cut { ms },
        _ if node == 0 => NodeFault::DaemonFrozen { ms },
        _ => NodeFault::Killed,
    };
    (dice.within(1500, 6000), node, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_campaign() {
        let all = |seed| -> Vec<String> {
            let life = |n| format!("{:?} {:?}", Life::new(seed, n), node_fault(seed, n));
            (0..50).map(life).collect()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn campaign_contains_every_kind_of_fault() {
        let lives: Vec<Life> = (0..4000).map(|n| Life::new(7, n)).collect();
        let faults = || lives.iter().flat_map(|l| &l.faults);
        for home in [true, false] {
            for point in points(home).into_iter().map(Some).chain([None]) {
                for deadly in [true, false] {
                    let same = |f: &&Fault| {
                        f.home == home && f.point == point && f.what.deadly() == deadly
                    };
                    let file = file_of(point);
                    assert!(faults().any(|f| same(&f)), "{home} {file} {deadly}");
                }
            }
        }
        let deadly = |l: &&Life| l.cable || l.faults.iter().any(|f| f.what.deadly());
        let gentle = lives.len() - lives.iter().filter(deadly).count();
        assert!((800..2400).contains(&gentle), "{gentle}");
        let sorts: Vec<NodeFault> = (0..200).map(|n| node_fault(7, n).2).collect();
        assert!(sorts.iter().any(|w| w.deadly()) && sorts.iter().any(|w| !w.deadly()));
        assert!(
            (0..200).all(|n| node_fault(7, n).1 != 0 || node_fault(7, n).2 != NodeFault::Killed)
        );
    }
}
