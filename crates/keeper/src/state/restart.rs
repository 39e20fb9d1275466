//! A tree that begins from a checkpoint file.
//!
//! From: `keeper/src/launch/options.rs`. Next: `keeper/src/saved/restart.rs`.

use super::pid_queue::PidQueue;
use armento_checkpoint::assemble::Board;
use armento_model::{NodeName, Pid};
use std::path::PathBuf;
use std::sync::Arc;

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
}

impl Restarts {
    pub fn new(how: Restart) -> Restarts {
        Restarts {
            how,
            queue: PidQueue::default(),
        }
    }

    /// The place of a process in the checkpoint.
    pub fn index(&self, pid: Pid) -> Option<usize> {
        self.how.board.index(pid)
    }
}
