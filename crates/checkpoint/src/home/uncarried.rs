//! Why processes cannot be put into a checkpoint.

use super::values::Bytes;
use armento_model::Pid;
use std::fmt;

/// Something of a process that a checkpoint does not carry. Nothing was changed; the processes are as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncarried {
    pub pid: Pid,
    pub comm: Bytes,
    /// A sentence without its end: "descriptor 7 is a TCP connection to 10.0.0.2:80".
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Uncarried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}): {}", self.pid, self.comm, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Uncarried {}
