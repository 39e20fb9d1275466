//! Work on the machines: the next task to end, and its consequences.

use super::state::World;
use super::things::{Chore, Event};

/// Numbers of chores begin here; processes have the numbers below.
pub(super) const CHORES: usize = 1 << 40;

impl World {
    /// A task began or ended there: the next end changes.
    pub(super) fn changed(&mut self, i: usize) {
        self.machines[i].1 += 1;
        let version = self.machines[i].1;
        if let Some(at) = self.machines[i].0.next_end() {
            self.at(at.max(self.now), Event::End(i, version));
        }
    }

    pub(super) fn ends(&mut self, i: usize) {
        self.machines[i].0.advance(self.now);
        while let Some((end, task)) = self.machines[i].0.due() {
            self.machines[i].0.leave(task, end, self.now);
            match task.checked_sub(CHORES) {
                Some(chore) => {
                    if let Some(chore) = self.chores.take(chore) {
                        self.did(chore);
                    }
                }
                None => self.computed(task),
            }
        }
        self.changed(i);
    }

    /// An end of a flight. `first`: the process was never on that node.
    pub(super) fn end_of_flight(&mut self, node: usize, chore: Chore, first: bool) {
        let work = self.prices.end_ns + if first { self.prices.first_ns } else { 0 };
        self.chore(node, chore, work);
    }

    pub(super) fn chore(&mut self, node: usize, chore: Chore, work: u64) {
        let id = CHORES + self.chores.put(chore);
        self.out.moved_ns += work;
        let machine = &mut self.machines[node].0;
        if self.prices.ahead || self.prices.guests_yield {
            machine.enter_ahead(id, work, self.now);
        } else {
            machine.enter(id, work, self.now);
        }
        self.changed(node);
    }
}
