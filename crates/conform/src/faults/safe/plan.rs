//! What happens to programs that are kept safe, all derived from the seed.

use armento_migrate::phase::Failpoint;
use serde::Serialize;

use crate::faults::plan::{Dice, Fault, LONG_MS, NODES, NodeFault, SHORT_MS, What, points};
use crate::faults::safe::homes::{self, Loss};
use crate::faults::safe::programs::{LONG, PATIENT, PROGRAMS};

/// How a program is kept safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// A checkpoint every second.
    Every,
    Exact,
    /// A checkpoint every second, and one of the tree at another node.
    Remote,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    On(usize),
    Storm { ms: u64, seed: u64 },
}

/// One program, from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    pub number: u64,
    /// Of [`PROGRAMS`].
    pub program: usize,
    pub how: How,
    pub place: Place,
    /// Its links to hosts run through a proxy that breaks at random bytes.
    pub cable: bool,
    /// It loses its home.
    pub home_lost: Option<Loss>,
    /// When its disk is full, and for how long.
    pub full: Option<(u64, u64)>,
    /// It is disturbed only when it has a checkpoint.
    pub later: bool,
    pub faults: Vec<Fault>,
}

/// The node where programs are started.
pub const HOME: usize = 0;
/// Delayed threads in each life.
const LATE: u32 = 2;
/// When faults come, milliseconds after the start.
const WHEN_MS: (u64, u64) = (0, 1500);

impl Life {
    pub fn new(seed: u64, number: u64) -> Life {
        // Streams of their own: the other campaign uses the first ones.
        let mut dice = Dice::new(seed, (1 << 32) + 2 * number);
        let program = choose(&mut dice);
        let how = match dice.within(0, 99) {
            0..20 => How::Exact,
            20..30 => How::Remote,
            _ => How::Every,
        };
        let home_lost = (PROGRAMS[program].name == LONG).then(|| Loss {
            power: dice.percent(50),
            after_ms: dice.within(0, 5000),
        });
        let how = home_lost.map_or(how, |_| How::Remote);
        let place = match dice.percent(35) {
            true => Place::Storm {
                ms: dice.within(100, 600),
                seed: dice.within(0, 1 << 32),
            },
            false => Place::On(dice.within(1, NODES as u64 - 1) as usize),
        };
        let cable = dice.percent(15);
        let full = (PROGRAMS[program].name == PATIENT)
            .then(|| (dice.within(300, 1500), dice.within(100, 1500)));
        let count = match dice.within(0, 99) {
            0..10 => 0,
            10..55 => 1,
            _ => 2,
        };
        let mut faults: Vec<Fault> = (0..count).map(|_| fault(&mut dice)).collect();
        if dice.percent(50)
            && let [first, second] = &mut faults[..]
        {
            second.at_ms = first.at_ms;
        }
        if home_lost.is_some() {
            // What becomes of it otherwise is for the others.
            faults.clear();
        }
        faults.extend((0..LATE).map(|_| late(&mut dice)));
        Life {
            number,
            program,
            how,
            place,
            cable,
            home_lost,
            full,
            later: dice.percent(80),
            faults,
        }
    }
}

impl Life {
    /// The node where it is started.
    pub fn home(&self) -> usize {
        self.home_lost.map_or(HOME, |_| homes::LOST)
    }
}

fn choose(dice: &mut Dice) -> usize {
    let all: u64 = PROGRAMS.iter().map(|p| p.share).sum();
    let mut at = dice.within(0, all - 1);
    for (n, p) in PROGRAMS.iter().enumerate() {
        if at < p.share {
            return n;
        }
        at -= p.share;
    }
    0
}

/// Failpoints of the steps by which a process is kept safe.
fn steps(home: bool) -> Vec<Failpoint> {
    let all: Vec<Failpoint> = match home {
        true => Failpoint::of_keeper().collect(),
        false => Failpoint::of_host().collect(),
    };
    all.into_iter().filter(|p| p.step().is_some()).collect()
}

fn fault(dice: &mut Dice) -> Fault {
    let home = dice.percent(25);
    let point = match (home, dice.within(0, 99)) {
        (true, 0..65) | (false, 0..15) => Some(dice.pick(&steps(home))),
        (true, 65..85) | (false, 15..50) => Some(dice.pick(&points(home))),
        _ => None,
    };
    let of = dice.within(0, 99);
    let long = dice.within(LONG_MS.0, LONG_MS.1);
    let short = dice.within(SHORT_MS.0, SHORT_MS.1);
    let what = match (home, of) {
        (true, 0..15) | (false, 0..65) => What::Kill,
        (true, 15..45) | (false, 65..85) if of.is_multiple_of(2) => What::Freeze { ms: long },
        (true, 15..45) | (false, 65..85) => What::Stall { ms: long },
        _ if of.is_multiple_of(2) || point.is_none() => What::Freeze { ms: short },
        _ => What::Stall { ms: short },
    };
    Fault {
        home,
        point,
        what,
        at_ms: dice.within(WHEN_MS.0, WHEN_MS.1),
    }
}

/// A delayed thread: its work may have been given up, and begun again by another.
fn late(dice: &mut Dice) -> Fault {
    let home = dice.percent(60);
    let all = match dice.percent(60) {
        true => steps(home),
        false => points(home),
    };
    Fault {
        home,
        point: Some(dice.pick(&all)),
        what: What::Stall {
            ms: dice.within(SHORT_MS.0, SHORT_MS.1),
        },
        at_ms: dice.within(WHEN_MS.0, WHEN_MS.1),
    }
}

/// The `n`th faults of nodes: the delay after those before; one, or two of different nodes at once.
pub fn node_faults(seed: u64, n: u64) -> (u64, Vec<(usize, NodeFault)>) {
    let mut dice = Dice::new(seed, (1 << 32) + 2 * n + 1);
    let wait = dice.within(1500, 6000);
    let first = dice.within(0, NODES as u64 - 1) as usize;
    let mut all = vec![(first, node_fault(&mut dice, first))];
    if dice.percent(30) {
        let second = (first + dice.within(1, NODES as u64 - 1) as usize) % NODES;
        all.push((second, node_fault(&mut dice, second)));
    }
    (wait, all)
}

fn node_fault(dice: &mut Dice, node: usize) -> NodeFault {
    let (low, high) = match dice.percent(30) {
        true => LONG_MS,
        false => SHORT_MS,
    };
    let ms = dice.within(low, high);
    match dice.within(0, 8) {
        0 => NodeFault::Daemon {
            down_ms: ms.min(2000),
        },
        1 => NodeFault::DaemonFrozen { ms },
        2 => NodeFault::Frozen { ms },
        3 => NodeFault::Cut { ms },
        4 => NodeFault::Deaf { ms },
        5 => NodeFault::Mute { ms },
        6 => NodeFault::Slow { ms: ms.max(1000) },
        7 => NodeFault::Full { ms: ms.max(1000) },
        // Where programs are started their judges would die, too.
        _ if node == HOME => NodeFault::DaemonFrozen { ms },
        _ => NodeFault::Killed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_campaign() {
        let all = |seed| -> Vec<String> {
            let life = |n| format!("{:?} {:?}", Life::new(seed, n), node_faults(seed, n));
            (0..50).map(life).collect()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn campaign_contains_every_step_program_and_kind_of_fault() {
        let lives: Vec<Life> = (0..4000).map(|n| Life::new(7, n)).collect();
        for home in [true, false] {
            for point in steps(home) {
                let of = |f: &Fault| f.home == home && f.point == Some(point);
                for kill in [true, false] {
                    let same = |f: &Fault| of(f) && (f.what == What::Kill) == kill;
                    let met = lives.iter().flat_map(|l| &l.faults).any(same);
                    assert!(met, "{home} {} {kill}", point.name());
                }
            }
        }
        for (n, p) in PROGRAMS.iter().enumerate() {
            assert!(lives.iter().any(|l| l.program == n), "{}", p.name);
        }
        let faults: Vec<_> = (0..400).map(|n| node_faults(7, n).1).collect();
        assert!(faults.iter().any(|f| f.len() == 2));
        let killed_home = |f: &(usize, NodeFault)| f.0 == HOME && f.1 == NodeFault::Killed;
        assert!(!faults.iter().flatten().any(killed_home));
    }
}
