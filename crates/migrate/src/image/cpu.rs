//! CPU time of a process or thread, as it travels.
//!
//! The kernel of every node counts from nothing, and home's counts on while the process is away. What a
//! program reads is the sum: at home the kernel's and `away`, at a body `home`, `away` and the kernel's there.

use armento_model::{CpuTime, Shown};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// What home's kernel said when it left.
    pub home: CpuTime,
    /// Used away, on all nodes.
    pub away: CpuTime,
    pub shown: Shown,
}
