//! A tree that begins from a checkpoint file.
//!
//! From: `keeper/src/launch/options.rs`. Next: `keeper/src/saved/restart.rs`.

use super::pid_queue::PidQueue;
use crate::sync::lock;
use armento_checkpoint::assemble::Board;
use armento_model::{NodeName, Pid};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What `armento restart` was asked.
#[derive(Clone)]
pub struct Restart {
    pub file: PathBuf,
    /// The threads have the numbers that they had.
    pub same_pids: bool,
    /// Where the bodies begin; where there is room if not named.
    pub on: Option<NodeName>,
    /// The number of each process, by its place in the checkpoint.
    pub board: Arc<Board>,
}

impl std::fmt::Debug for Restart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restart")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Its programs at their exec, which wait for their bodies.
pub struct Restarts {
    pub how: Restart,
    pub queue: PidQueue,
    /// How many threads the body of each has that is being built.
    threads: Mutex<HashMap<Pid, usize>>,
    /// The place in the checkpoint of each process that has come to its exec: it begins once, and what it execs later is
    /// another program.
    begun: Mutex<HashMap<usize, Pid>>,
}

impl Restarts {
    pub fn new(how: Restart) -> Restarts {
        Restarts {
            how,
            queue: PidQueue::default(),
            threads: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    /// Its process needs room for so many.
    pub fn will_have(&self, pid: Pid, threads: usize) {
        lock(&self.threads).insert(pid, threads);
    }

    /// How many threads the process will have; 0 if it does not begin here.
    pub fn threads(&self, pid: Pid) -> usize {
        lock(&self.threads).get(&pid).copied().unwrap_or(0)
    }

    /// Whether this exec is the one at which the process begins from the file. Once for each.
    pub fn begins(&self, pid: Pid) -> bool {
        let Some(place) = self.how.board.index(pid) else {
            return false;
        };
        let mut begun = lock(&self.begun);
        if begun.contains_key(&place) {
            return false;
        }
        begun.insert(place, pid);
        true
    }

    /// The place in the checkpoint of a process that begins.
    pub fn index(&self, pid: Pid) -> Option<usize> {
        let begun = lock(&self.begun);
        begun.iter().find(|(_, p)| **p == pid).map(|(at, _)| *at)
    }

    /// The numbers of all processes, as far as they are forked.
    pub fn pids(&self) -> Vec<Pid> {
        let board = &self.how.board;
        (0..board.processes())
            .filter_map(|at| board.pid(at))
            .collect()
    }
}
