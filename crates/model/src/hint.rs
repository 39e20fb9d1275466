//! What a user states about a program at its start.

use serde::{Deserialize, Serialize};

/// Given at the start, for the whole tree. PAPER: openMosix's `cpujob` and `iojob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// It computes: occasional calls do not keep it at home.
    Cpu,
    /// It calls home a lot: it stays there as long as memory suffices.
    Io,
}
