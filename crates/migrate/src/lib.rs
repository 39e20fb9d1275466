//! The image of one process, and the phases by which it travels.
//!
//! Source and target face each other: [`source`] writes what [`target`] reads. [`image`] is cut by
//! resource. Nothing here decides who moves, and nothing here knows whether a side is home or host:
//! that is left to `keeper` and `host`, which own the threads. Start at [`image`].

pub mod alike;
pub mod carry;
pub mod fault;
pub mod fetch;
pub mod fill;
pub mod image;
mod later;
mod pace;
mod pack;
pub mod permit;
pub mod source;
pub mod stop;
mod sweep;
pub mod target;
mod watch;

use armento_model::Stay;

/// What is left after a failed move.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// It may not or cannot move now. It runs on where it was.
    #[error("{0}: {1}")]
    Stays(Stay, String),
    /// The other side refused. It runs on where it was.
    #[error("the other node declined: {0}: {1}")]
    Declined(Stay, String),
    /// Link lost before the flip. It runs on where it was.
    #[error("the link was lost: {0}")]
    Link(#[from] armento_wire::WireError),
    /// The process ended meanwhile; its parent knows.
    #[error("the process ended meanwhile")]
    Ended,
    /// Something inside the process did not work. It runs on where it was, unless the text says otherwise.
    #[error("{0}")]
    Trace(armento_tracee::TraceError),
}

impl From<armento_tracee::TraceError> for MigrateError {
    fn from(e: armento_tracee::TraceError) -> Self {
        match e {
            armento_tracee::TraceError::Gone(_) => MigrateError::Ended,
            armento_tracee::TraceError::Busy(t) => {
                MigrateError::Stays(Stay::Busy, format!("thread {t} does not stop"))
            }
            e => MigrateError::Trace(e),
        }
    }
}

impl From<std::io::Error> for MigrateError {
    fn from(e: std::io::Error) -> Self {
        MigrateError::Link(armento_wire::WireError::Io(e))
    }
}

impl MigrateError {
    /// The reason as `armento why` tells it.
    pub fn stay(&self) -> Stay {
        match self {
            MigrateError::Stays(s, _) | MigrateError::Declined(s, _) => *s,
            MigrateError::Link(_) => Stay::LinkLost,
            MigrateError::Ended => Stay::Busy,
            MigrateError::Trace(_) => Stay::TargetFailed,
        }
    }

    /// What stands beside the reason.
    pub fn detail(&self) -> String {
        match self {
            MigrateError::Stays(_, detail) | MigrateError::Declined(_, detail) => detail.clone(),
            other => other.to_string(),
        }
    }
}

pub type Result<T> = std::result::Result<T, MigrateError>;
