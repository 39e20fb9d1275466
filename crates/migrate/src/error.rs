//! Why a move failed, and what is left.

use armento_model::Stay;

/// Why a move failed, and what state that leaves.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// It may not or cannot move now. It goes on where it was.
    #[error("{0}: {1}")]
    Stays(Stay, String),
    /// The other side refused. It goes on where it was.
    #[error("the other node declined: {0}: {1}")]
    Declined(Stay, String),
    /// Link lost before the flip. It goes on where it was.
    #[error("the link was lost: {0}")]
    Link(#[from] armento_wire::WireError),
    /// The process ended in the meantime; its parent was notified.
    #[error("the process ended meanwhile")]
    Ended,
    /// A local operation of one of the two nodes failed. It goes on where it was.
    #[error("cannot {what}: {why}")]
    Local {
        what: &'static str,
        why: std::io::Error,
    },
    /// An operation inside the process failed. It goes on where it was, unless the text says otherwise.
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

impl MigrateError {
    /// The reason as `armento why` shows it.
    pub fn stay(&self) -> Stay {
        match self {
            MigrateError::Stays(s, _) | MigrateError::Declined(s, _) => *s,
            MigrateError::Link(_) => Stay::LinkLost,
            MigrateError::Ended => Stay::Busy,
            MigrateError::Local { .. } => Stay::NodeFailed,
            MigrateError::Trace(_) => Stay::TargetFailed,
        }
    }

    /// The details of the reason.
    pub fn detail(&self) -> String {
        match self {
            MigrateError::Stays(_, detail) | MigrateError::Declined(_, detail) => detail.clone(),
            other => other.to_string(),
        }
    }
}

pub type Result<T> = std::result::Result<T, MigrateError>;

/// Results of local operations of a node: their failures are not link failures.
pub trait Local<T> {
    /// `what` could not be done.
    fn local(self, what: &'static str) -> Result<T>;
    /// As [`Local::local`], for reads from /proc: if the process is missing, it has ended.
    fn of_process(self, what: &'static str) -> Result<T>;
}

impl<T> Local<T> for std::io::Result<T> {
    fn local(self, what: &'static str) -> Result<T> {
        self.map_err(|why| MigrateError::Local { what, why })
    }

    fn of_process(self, what: &'static str) -> Result<T> {
        self.map_err(|why| match why.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => MigrateError::Ended,
            _ => MigrateError::Local { what, why },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn local_failures_are_not_link_failures() {
        let failed = |errno| -> io::Result<()> { Err(io::Error::from_raw_os_error(errno)) };
        let e = failed(libc::EMFILE).local("open its memory").unwrap_err();
        assert_eq!(e.stay(), Stay::NodeFailed);
        assert!(e.detail().starts_with("cannot open its memory: "), "{e}");
        let of = |errno| failed(errno).of_process("read its memory").unwrap_err();
        assert!(matches!(of(libc::ESRCH), MigrateError::Ended));
        assert_eq!(of(libc::EIO).stay(), Stay::NodeFailed);
    }
}
