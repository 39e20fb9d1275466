//! CPU time of a process or thread, as it is transferred.
//!
//! Each node's kernel counts from zero, and home's goes on counting while the process is away. A program reads the sum:
//! at home the kernel's value and `away`; in a body `home`, `away` and the local kernel's value.

use armento_model::{CpuTime, Shown};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The value of home's kernel when the process left.
    pub home: CpuTime,
    /// CPU time used away from home, on all nodes.
    pub away: CpuTime,
    pub shown: Shown,
}
