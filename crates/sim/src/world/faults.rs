//! Faults: nodes crash, slow down, are cut off, and their clocks run wrong.

use super::state::World;
use super::things::{Daemon, Event, Fault};
use crate::machine::{Machine, TaskId};
use armento_model::Stay;

/// Time until membership detects that a node is gone, or is back (SWIM's probe and suspicion, `noded/src/gossip/timing.rs`).
const NOTICE_US: u64 = 5_000_000;

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
                self.send_at_once(node);
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

    /// Members detect the fault's present state.
    pub(super) fn notice(&mut self, f: usize) {
        match self.faults[f].clone() {
            Fault::Crash { node, .. } => {
                let dead = !self.daemons[node].up;
                self.members.dead[node] = dead;
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

    /// Each side removes the other from its members, or adds it again.
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

    /// It starts again without its earlier state.
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
