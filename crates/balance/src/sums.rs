//! Work of ours at each node, kept as it changes: a home may have a hundred thousand processes.

use armento_model::{NodeName, Pid};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// Where each counts, and how much.
    counted: HashMap<Pid, (NodeName, u64)>,
    sums: HashMap<NodeName, u64>,
    changed: Vec<NodeName>,
}

impl Sums {
    /// `pid` counts there from now on, or nowhere.
    pub fn set(&mut self, pid: Pid, at: Option<(&NodeName, u64)>) {
        let before = self.counted.get(&pid);
        if before.map(|(node, work)| (node, *work)) == at {
            return;
        }
        if let Some((node, work)) = self.counted.remove(&pid) {
            let sum = self.sums.entry(node.clone()).or_default();
            *sum -= work;
            if *sum == 0 {
                self.sums.remove(&node);
            }
            self.changed.push(node);
        }
        if let Some((node, work)) = at {
            *self.sums.entry(node.clone()).or_default() += work;
            self.counted.insert(pid, (node.clone(), work));
            self.changed.push(node.clone());
        }
    }

    /// Hundredths.
    pub fn at(&self, node: &NodeName) -> u64 {
        self.sums.get(node).copied().unwrap_or(0)
    }

    /// Where any of ours is, or is on its way to.
    pub fn places(&self) -> impl Iterator<Item = &NodeName> {
        self.sums.keys()
    }

    /// What has changed since this was last asked.
    pub fn changes(&mut self) -> Vec<(NodeName, u64)> {
        let changed = std::mem::take(&mut self.changed);
        let now = |node: NodeName| {
            let work = self.at(&node);
            (node, work)
        };
        changed.into_iter().map(now).collect()
    }
}
