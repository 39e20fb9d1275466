//! Total work of this home on each node, updated incrementally: a home may have a hundred thousand processes.

use armento_model::{NodeName, Pid};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// The node where each process counts, and its work.
    counted: HashMap<Pid, (NodeName, u64)>,
    sums: HashMap<NodeName, u64>,
    changed: Vec<(NodeName, u64)>,
}

impl Sums {
    /// `pid` counts at that node from now on, or nowhere.
    pub fn set(&mut self, pid: Pid, at: Option<(&NodeName, u64)>) {
        let before = self.counted.get(&pid);
        if before.map(|(node, work)| (node, *work)) == at {
            return;
        }
        let before = self.counted.remove(&pid);
        if let Some((node, work)) = at {
            self.counted.insert(pid, (node.clone(), work));
        }
        match (before, at) {
            (Some((node, less)), Some((to, more))) if node == *to => self.add(node, less, more),
            (before, at) => {
                if let Some((node, work)) = before {
                    self.add(node, work, 0);
                }
                if let Some((node, work)) = at {
                    self.add(node.clone(), 0, work);
                }
            }
        }
    }

    /// Whether the process counts somewhere, with any work.
    pub fn counts(&self, pid: Pid) -> bool {
        self.counted.get(&pid).is_some_and(|(_, work)| *work > 0)
    }

    fn add(&mut self, node: NodeName, less: u64, more: u64) {
        let sum = self.at(&node) - less + more;
        match sum {
            0 => drop(self.sums.remove(&node)),
            _ => drop(self.sums.insert(node.clone(), sum)),
        }
        self.changed.push((node, sum));
    }

    /// Hundredths.
    pub fn at(&self, node: &NodeName) -> u64 {
        self.sums.get(node).copied().unwrap_or(0)
    }

    /// Nodes on which a process of this home is, or to which one moves.
    pub fn places(&self) -> impl Iterator<Item = &NodeName> {
        self.sums.keys()
    }

    /// The changes since the last call, in single steps: when one process arrived and another left, there may have been
    /// two for a while, or none.
    pub fn changes(&mut self) -> Vec<(NodeName, u64)> {
        std::mem::take(&mut self.changed)
    }
}
