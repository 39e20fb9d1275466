//! What goes wrong: nodes crash, slow down, are cut off, and their clocks run wrong.

use super::{Daemon, Event, World};
use crate::machine::{Machine, TaskId};
use armento_gossip::Tick;
use armento_model::{Stay, Users};

/// Until membership notices that a node is gone, or is there again (SWIM's probe and suspicion, `noded/src/members.rs`).
const NOTICE_US: u64 = 5_000_000;

#[derive(Clone, Debug)]
pub enum Fault {
    /// A node ends, with all whose home or place it is, and starts again after so long.
    Crash { node: usize, for_us: u64 },
    /// These nodes and the others do not hear each other.
    Cut { nodes: Vec<usize>, for_us: u64 },
    /// A node has this share of the speed that it told.
    Slow {
        node: usize,
        percent: u64,
        for_us: u64,
    },
    /// A node's clock runs so much too fast, millionths, from then on.
    Skew { node: usize, ppm: i64 },
    /// A node's owner is back and computes, so many tasks.
    Owner {
        node: usize,
        tasks: u64,
        for_us: u64,
    },
}

impl Fault {
    fn for_us(&self) -> Option<u64> {
        match self {
            Fault::Crash { for_us, .. }
            | Fault::Cut { for_us, .. }
            | Fault::Slow { for_us, .. }
            | Fault::Owner { for_us, .. } => Some(*for_us),
            Fault::Skew { .. } => None,
        }
    }
}

/// A node's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// At that moment it showed so much, and has run so much too fast since.
    from_us: u64,
    shown_us: u64,
    ppm: i64,
}

impl Clock {
    pub fn at(&self, now_us: u64) -> Tick {
        Tick(self.shows_us(now_us) / 1000)
    }

    fn shows_us(&self, now_us: u64) -> u64 {
        let past = now_us.saturating_sub(self.from_us);
        let gained = past as i128 * i128::from(self.ppm) / 1_000_000;
        self.shown_us + (past as i128 + gained).max(0) as u64
    }

    fn runs(&mut self, ppm: i64, now_us: u64) {
        *self = Clock {
            from_us: now_us,
            shown_us: self.shows_us(now_us),
            ppm,
        };
    }
}

/// Who can hear whom, and whom the living hold for alive.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// On which side of a cut each is, and on which it is held to be.
    sides: Vec<u8>,
    noticed: Vec<u8>,
    /// Held for dead.
    buried: Vec<bool>,
    /// Of each side all who are held for alive, in order.
    circles: [Vec<usize>; 2],
}

/// The living that a node knows of, without itself.
pub(super) struct Peers<'a> {
    circle: &'a [usize],
    own: Option<usize>,
}

impl Peers<'_> {
    pub fn len(&self) -> usize {
        self.circle.len() - usize::from(self.own.is_some())
    }

    pub fn at(&self, place: usize) -> usize {
        self.circle[place + usize::from(self.own.is_some_and(|own| place >= own))]
    }
}

impl Members {
    pub fn new(n: usize) -> Members {
        let mut members = Members {
            sides: vec![0; n],
            noticed: vec![0; n],
            buried: vec![false; n],
            circles: [Vec::new(), Vec::new()],
        };
        members.count();
        members
    }

    fn count(&mut self) {
        for side in [0, 1] {
            let here = |i: &usize| !self.buried[*i] && usize::from(self.noticed[*i]) == side;
            self.circles[side] = (0..self.sides.len()).filter(here).collect();
        }
    }

    pub fn peers(&self, i: usize) -> Peers<'_> {
        let circle = &self.circles[usize::from(self.noticed[i])];
        Peers {
            own: circle.binary_search(&i).ok(),
            circle,
        }
    }

    /// Whose programs `i` sends where.
    pub fn open_to(&self, i: usize) -> impl Fn(usize) -> Users {
        move |node| {
            if self.buried[node] || self.noticed[node] != self.noticed[i] {
                Users::nobody()
            } else {
                Users::everybody()
            }
        }
    }
}

impl World {
    pub(super) fn is_linked(&self, a: usize, b: usize) -> bool {
        let both = self.daemons[a].up && self.daemons[b].up;
        both && self.members.sides[a] == self.members.sides[b]
    }

    pub(super) fn strike(&mut self, f: usize) {
        let fault = self.faults[f].clone();
        if let Some(us) = fault.for_us() {
            self.after(us, Event::Over(f));
        }
        match fault {
            Fault::Crash { node, .. } => self.crash(node),
            Fault::Cut { nodes, .. } => {
                nodes.iter().for_each(|&i| self.members.sides[i] = 1);
            }
            Fault::Slow { node, percent, .. } => self.runs_at(node, percent),
            Fault::Skew { node, ppm } => {
                self.daemons[node].clock.runs(ppm, self.now);
                return;
            }
            Fault::Owner { node, tasks, .. } => {
                self.background(node, tasks);
                self.cry(node);
                return;
            }
        }
        self.after(NOTICE_US, Event::Noticed(f));
    }

    pub(super) fn mend(&mut self, f: usize) {
        match self.faults[f].clone() {
            Fault::Crash { node, .. } => self.boot(node),
            Fault::Cut { nodes, .. } => {
                nodes.iter().for_each(|&i| self.members.sides[i] = 0);
            }
            Fault::Slow { node, .. } => self.runs_at(node, 100),
            Fault::Owner { node, .. } => {
                self.background(node, 0);
                return;
            }
            Fault::Skew { .. } => return,
        }
        self.after(NOTICE_US, Event::Noticed(f));
    }

    /// What is so by now, the others know.
    pub(super) fn notice(&mut self, f: usize) {
        match self.faults[f].clone() {
            Fault::Crash { node, .. } => {
                let dead = !self.daemons[node].up;
                self.members.buried[node] = dead;
                self.members.count();
                if dead {
                    let daemons = self.daemons.iter_mut();
                    daemons.for_each(|d| d.table.forget(node as u32));
                }
            }
            Fault::Cut { nodes, .. } => {
                self.members.noticed.clone_from(&self.members.sides);
                self.members.count();
                self.part_or_meet(&nodes);
            }
            Fault::Slow { .. } | Fault::Skew { .. } | Fault::Owner { .. } => {}
        }
    }

    /// Each side forgets the other, or welcomes it again.
    fn part_or_meet(&mut self, nodes: &[usize]) {
        let inside: Vec<bool> = {
            let mut inside = vec![false; self.names.len()];
            nodes.iter().for_each(|&i| inside[i] = true);
            inside
        };
        let cut = nodes.first().is_some_and(|&i| self.members.sides[i] == 1);
        for i in 0..self.names.len() {
            for other in (0..self.names.len()).filter(|&o| inside[o] != inside[i]) {
                let table = &mut self.daemons[i].table;
                if cut {
                    table.forget(other as u32);
                } else {
                    table.welcome(other as u32);
                }
            }
        }
    }

    fn runs_at(&mut self, node: usize, percent: u64) {
        let speed = self.daemons[node].rack.speed_milli * percent / 100;
        self.machines[node].0.set_speed(speed, self.now);
        self.changed(node);
    }

    fn crash(&mut self, node: usize) {
        self.daemons[node].up = false;
        self.starting[node] = 0;
        let flies_there = |task: &TaskId| self.procs[*task].flight == Some(node);
        let all = 0..self.procs.len();
        let bound: Vec<TaskId> = all.filter(flies_there).collect();
        let ours: Vec<TaskId> = self.homes[node].iter().copied().collect();
        ours.into_iter().for_each(|task| self.lost(task));
        let here: Vec<TaskId> = self.here[node].iter().copied().collect();
        here.into_iter().for_each(|task| self.lost(task));
        for task in bound {
            if self.procs[task].lives() {
                self.stays(task, Stay::LinkLost);
            }
        }
        self.machines[node].0 = Machine::new(1, 1);
        self.changed(node);
    }

    /// It starts again and knows nothing.
    fn boot(&mut self, node: usize) {
        let Daemon {
            rack, boot, clock, ..
        } = self.daemons[node];
        let moves = self.daemons[node].moves;
        self.daemons[node] = Daemon::new(node, &self.names, rack, boot + 1);
        self.daemons[node].clock = clock;
        self.daemons[node].moves = moves;
        self.machines[node].0 = Machine::new(rack.cores.into(), rack.speed_milli);
        self.machines[node].0.advance(self.now);
        self.changed(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_wrong_never_goes_back() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(5_000_000), Tick(5_000));
        clock.runs(100_000, 10_000_000);
        assert_eq!(clock.at(20_000_000), Tick(21_000));
        clock.runs(-500_000, 20_000_000);
        assert_eq!(clock.at(20_000_000), Tick(21_000));
        assert_eq!(clock.at(30_000_000), Tick(26_000));
    }
}
