//! What the processes of the tree have used on which node, for the history that the daemon keeps.

use crate::sync::lock;
use armento_client::api::{JOB_NODES_MAX, JobUse, NodeUse};
use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two reports of a job that goes on …
const EVERY: Duration = Duration::from_secs(3);
/// … and of one that does nothing: a daemon that was killed may not have written the last.
const CALM: Duration = Duration::from_secs(60);

/// Totals of processes that have ended, and of all moves. What processes that run have used is added for each report.
#[derive(Default)]
pub struct JobTotals(Mutex<Totals>);

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    nodes: BTreeMap<NodeName, NodeUse>,
    ended: u64,
    status: Option<i32>,
    /// What was last reported, and when.
    #[serde(skip)]
    reported: Option<(Instant, JobUse)>,
}

impl Totals {
    /// Nodes beyond the bound count as home's.
    fn of<'a>(
        nodes: &'a mut BTreeMap<NodeName, NodeUse>,
        node: &NodeName,
        home: &NodeName,
    ) -> &'a mut NodeUse {
        let fits = nodes.len() < JOB_NODES_MAX || nodes.contains_key(node);
        nodes
            .entry(if fits { node } else { home }.clone())
            .or_default()
    }
}

/// What one process has used, by node.
pub type ProcessUse = BTreeMap<NodeName, NodeUse>;

impl JobTotals {
    pub fn all(&self) -> Totals {
        lock(&self.0).clone()
    }

    /// As another process image had them.
    pub fn take_over(&self, all: Totals) {
        *lock(&self.0) = all;
    }

    pub fn moved(&self, to: &NodeName, home: &NodeName, pause: Duration, bytes: u64) {
        let mut totals = lock(&self.0);
        *Totals::of(&mut totals.nodes, to, home) += NodeUse {
            moves: 1,
            pause_us: u64::try_from(pause.as_micros()).unwrap_or(u64::MAX),
            move_bytes: bytes,
            ..NodeUse::default()
        };
    }

    pub fn process_ended(&self, used: ProcessUse, home: &NodeName) {
        let mut totals = lock(&self.0);
        totals.ended += 1;
        for (node, used) in used {
            *Totals::of(&mut totals.nodes, &node, home) += used;
        }
    }

    /// The first process ends with this status.
    pub fn ends_with(&self, status: i32) {
        lock(&self.0).status = Some(status);
    }

    /// The newest report, if it is time for one: of what has ended, and of `running`.
    pub fn report(&self, running: Vec<ProcessUse>, home: &NodeName, last: bool) -> Option<JobUse> {
        let mut totals = lock(&self.0);
        let now = Instant::now();
        let age = totals
            .reported
            .as_ref()
            .map(|(at, _)| now.duration_since(*at));
        if !last && age.is_some_and(|age| age < EVERY) {
            return None;
        }
        let mut nodes = totals.nodes.clone();
        let procs = totals.ended + running.len() as u64;
        for (node, used) in running.into_iter().flatten() {
            *Totals::of(&mut nodes, &node, home) += used;
        }
        let job = JobUse {
            nodes: nodes.into_iter().collect(),
            procs,
            status: totals.status,
        };
        let known = totals.reported.as_ref().is_some_and(|(_, was)| *was == job);
        if known && !last && age.is_some_and(|age| age < CALM) {
            return None;
        }
        totals.reported = Some((now, job.clone()));
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: &str) -> NodeName {
        n.parse().expect("name")
    }

    fn used(node: &str, cpu_ms: u64) -> ProcessUse {
        let used = NodeUse {
            cpu_ms,
            ..NodeUse::default()
        };
        BTreeMap::from([(name(node), used)])
    }

    #[test]
    fn report_sums_up_what_ended_and_what_runs() {
        let (totals, home) = (JobTotals::default(), name("n1"));
        totals.process_ended(used("n2", 30), &home);
        totals.moved(&name("n2"), &home, Duration::from_millis(2), 4096);
        totals.ends_with(3);
        let said = totals.report(vec![used("n2", 4), used("n1", 1)], &home, true);
        let said = said.expect("it is the first");
        assert_eq!((said.procs, said.status), (3, Some(3)));
        let of = |n: &str| {
            said.nodes
                .iter()
                .find(|(node, _)| *node == name(n))
                .expect(n)
                .1
        };
        assert_eq!((of("n1").cpu_ms, of("n2").cpu_ms), (1, 34));
        assert_eq!(
            (of("n2").moves, of("n2").pause_us, of("n2").move_bytes),
            (1, 2000, 4096)
        );
        assert_eq!(totals.report(Vec::new(), &home, false), None);
        assert!(totals.report(Vec::new(), &home, true).is_some());
    }

    #[test]
    fn nodes_beyond_the_bound_count_as_homes() {
        let (totals, home) = (JobTotals::default(), name("home"));
        totals.process_ended(used("home", 0), &home);
        for n in 0..JOB_NODES_MAX + 5 {
            totals.process_ended(used(&format!("n{n}"), 1), &home);
        }
        let said = totals
            .report(Vec::new(), &home, true)
            .expect("it is the first");
        assert_eq!(said.nodes.len(), JOB_NODES_MAX);
        let at_home = said.nodes.iter().find(|(n, _)| *n == home);
        assert_eq!(at_home.map(|(_, u)| u.cpu_ms), Some(6));
    }
}
