//! Checkpoint files (`armento checkpoint`): what is asked, and what was written.

use armento_model::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most processes that one checkpoint names; those that they have started are not counted.
pub const CHECKPOINT_PIDS_MAX: usize = 64;

/// A checkpoint file that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointOrder {
    /// With every process that descends from them. All are of one tree, the first is the root of the others.
    pub pids: Vec<Pid>,
    /// The absolute path of the file.
    pub file: String,
    /// Replace a file of that name.
    #[serde(default)]
    pub overwrite: bool,
    /// Also keep what its open files hold.
    #[serde(default)]
    pub with_files: bool,
}

/// A checkpoint file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpointed {
    pub pids: Vec<Pid>,
    pub file: String,
    /// How long the processes stood still, microseconds.
    pub pause_us: u64,
    pub total_us: u64,
    /// Memory in use, and of it what differs from zeros and from each other, bytes.
    pub memory_bytes: u64,
    pub distinct_bytes: u64,
    /// Size of the file.
    pub file_bytes: u64,
}
