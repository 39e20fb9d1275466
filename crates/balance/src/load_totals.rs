//! Work of ours at each node, kept as it changes: a home may have a hundred thousand processes.

use armento_model::{NodeName, Pid};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// Where each counts, and how much.
    counted: HashMap<Pid, (NodeName, u64)>,
    sums: HashMap<NodeName, u64>,
    changed: Vec<(NodeName, u64)>,
}

impl Sums {
    /// `pid` counts there from now on, or nowhere.
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

    /// Where any of ours is, or is on its way to.
    pub fn places(&self) -> impl Iterator<Item = &NodeName> {
        self.sums.keys()
    }

    /// What has changed since this was last asked, each step of it: where one came and another left, there may have been
    /// two for a while, or none.
    pub fn changes(&mut self) -> Vec<(NodeName, u64)> {
        std::mem::take(&mut self.changed)
    }
}
