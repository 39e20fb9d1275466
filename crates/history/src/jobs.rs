//! Jobs that run, or have ended and are not written yet. No I/O.

use armento_client::api::{COMMAND_MAX, JOB_NODES_MAX, JobUse, NodeUse};
use armento_model::{NodeName, TreeId};
use std::collections::BTreeMap;

/// Jobs in memory. A daemon has so many keepers at most; the rest wait for a disk that is full.
pub const JOBS_MAX: usize = 32_768;

pub type Uses = BTreeMap<NodeName, NodeUse>;

/// A keeper that said hello to the daemon.
#[derive(Clone, Debug)]
pub struct Began {
    pub tree: TreeId,
    pub uid: u32,
    pub command: String,
    /// False: it was there before this daemon, so that some of it may have been counted.
    pub fresh: bool,
}

/// What was written, and what its keeper has reported since.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its row, once it has one.
    pub row: Option<i64>,
    pub uid: u32,
    pub command: String,
    pub start_ms: u64,
    pub end_ms: Option<u64>,
    pub status: Option<i32>,
    pub procs: u64,
    pub fresh: bool,
    /// All that it has used …
    pub total: Uses,
    /// … and how much of that is in the file.
    pub counted: Uses,
    changed: bool,
    /// Its keeper has reported since this daemon began.
    reported: bool,
}

#[derive(Debug, Default)]
pub struct Jobs {
    all: BTreeMap<TreeId, Job>,
    /// Jobs that were dropped without having been written.
    pub lost: u64,
}

impl Jobs {
    pub fn began(&mut self, began: &Began, now_ms: u64) {
        if let Some(job) = self.all.get_mut(&began.tree) {
            // Its session broke, and is there again.
            job.changed |= job.end_ms.take().is_some();
            return;
        }
        self.make_room();
        let mut command = began.command.clone();
        let cut = (0..=COMMAND_MAX)
            .rev()
            .find(|n| command.is_char_boundary(*n));
        command.truncate(cut.unwrap_or(0));
        let job = Job {
            row: None,
            uid: began.uid,
            command,
            start_ms: now_ms,
            end_ms: None,
            status: None,
            procs: 0,
            fresh: began.fresh,
            total: Uses::new(),
            counted: Uses::new(),
            changed: true,
            reported: false,
        };
        self.all.insert(began.tree, job);
    }

    /// The newest totals of a job that has begun.
    pub fn used(&mut self, tree: TreeId, said: JobUse) {
        let Some(job) = self.all.get_mut(&tree) else {
            return;
        };
        let total: Uses = said.nodes.into_iter().take(JOB_NODES_MAX).collect();
        job.changed |= total != job.total || job.procs != said.procs;
        job.total = total;
        job.procs = said.procs;
        job.status = said.status.or(job.status);
        job.reported = true;
    }

    pub fn ended(&mut self, tree: TreeId, now_ms: u64) {
        if let Some(job) = self.all.get_mut(&tree) {
            job.end_ms = Some(now_ms.max(job.start_ms));
            job.changed = true;
        }
    }

    /// At most `count` jobs of which something is not written.
    pub fn unwritten(&self, count: usize) -> Vec<(TreeId, Job)> {
        // What was used before this daemon began is known with the first report only.
        let known = |j: &Job| j.fresh || j.reported || j.row.is_some() || j.end_ms.is_some();
        let changed = self.all.iter().filter(|(_, j)| j.changed && known(j));
        changed.map(|(t, j)| (*t, j.clone())).take(count).collect()
    }

    /// `as_written` is in the file, in that row; what has come meanwhile is not.
    pub fn written(&mut self, tree: TreeId, row: i64, as_written: &Job) {
        let Some(job) = self.all.get_mut(&tree) else {
            return;
        };
        job.row = Some(row);
        job.counted = as_written.total.clone();
        job.changed = job.total != as_written.total
            || (job.end_ms, job.status, job.procs)
                != (as_written.end_ms, as_written.status, as_written.procs);
        if job.end_ms.is_some() && !job.changed {
            self.all.remove(&tree);
        }
    }

    /// There is a new file: none has a row.
    pub fn forget_rows(&mut self) {
        for job in self.all.values_mut() {
            job.row = None;
            // What was counted in the old file is not counted again.
            job.fresh = true;
            job.changed |= job.end_ms.is_none();
        }
    }

    pub fn rows(&self) -> Vec<i64> {
        self.all.values().filter_map(|j| j.row).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn make_room(&mut self) {
        if self.all.len() < JOBS_MAX {
            return;
        }
        let ended = self.all.iter().filter(|(_, j)| j.end_ms.is_some());
        let oldest = ended.min_by_key(|(_, j)| j.end_ms).map(|(t, _)| *t);
        let oldest = oldest.or_else(|| self.all.keys().next().copied());
        if let Some(tree) = oldest {
            self.all.remove(&tree);
            self.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn began(tree: u64) -> Began {
        Began {
            tree: TreeId(tree),
            uid: 1000,
            command: "make -j8".into(),
            fresh: true,
        }
    }

    fn used(cpu_ms: u64) -> JobUse {
        let used = NodeUse {
            cpu_ms,
            ..NodeUse::default()
        };
        JobUse {
            nodes: vec![("n1".parse().expect("name"), used)],
            procs: 1,
            status: None,
        }
    }

    #[test]
    fn reports_during_a_write_are_written_by_the_next() {
        let mut jobs = Jobs::default();
        jobs.began(&began(1), 5);
        jobs.used(TreeId(1), used(10));
        let first = jobs.unwritten(9);
        jobs.used(TreeId(1), used(30));
        jobs.ended(TreeId(1), 90);
        jobs.written(TreeId(1), 7, &first[0].1);
        let second = jobs.unwritten(9);
        let (_, job) = &second[0];
        assert_eq!((job.row, job.end_ms), (Some(7), Some(90)));
        let node = "n1".parse().expect("name");
        assert_eq!(job.total[&node].since(&job.counted[&node]).cpu_ms, 20);
        jobs.written(TreeId(1), 7, job);
        assert!(jobs.is_empty());
    }

    #[test]
    fn a_job_whose_session_comes_back_goes_on() {
        let mut jobs = Jobs::default();
        jobs.began(&began(1), 5);
        jobs.ended(TreeId(1), 6);
        jobs.began(
            &Began {
                fresh: false,
                ..began(1)
            },
            7,
        );
        assert_eq!(jobs.unwritten(9)[0].1.end_ms, None);
    }

    #[test]
    fn a_full_table_drops_what_ended_first_and_counts_it() {
        let mut jobs = Jobs::default();
        for n in 0..JOBS_MAX as u64 {
            jobs.began(&began(n), n);
        }
        jobs.ended(TreeId(70), 9);
        jobs.ended(TreeId(71), 8);
        jobs.began(&began(u64::MAX), 9);
        jobs.began(&began(u64::MAX - 1), 9);
        jobs.began(&began(u64::MAX - 2), 9);
        assert_eq!((jobs.all.len(), jobs.lost), (JOBS_MAX, 3));
        assert!(
            [0, 70, 71]
                .iter()
                .all(|n| !jobs.all.contains_key(&TreeId(*n)))
        );
    }

    #[test]
    fn long_commands_are_cut_between_characters() {
        let mut jobs = Jobs::default();
        let command = "ü".repeat(COMMAND_MAX);
        jobs.began(
            &Began {
                command,
                ..began(1)
            },
            0,
        );
        assert_eq!(jobs.unwritten(1)[0].1.command.len(), COMMAND_MAX);
        let command = format!("a{}", "ü".repeat(COMMAND_MAX));
        jobs.began(
            &Began {
                command,
                ..began(2)
            },
            0,
        );
        assert_eq!(jobs.unwritten(2)[1].1.command.len(), COMMAND_MAX - 1);
    }
}
