//! What a user knows of a program before it has shown it.

use serde::{Deserialize, Serialize};

/// Said at the start, for the whole tree. PAPER: openMosix's `cpujob` and `iojob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// It computes: the calls that it makes now and then do not keep it at home.
    Cpu,
    /// It calls home much: it stays there as long as memory lasts.
    Io,
}
