//! Why a command of old name did nothing, and what to do.

use armento_client::AskError;

/// A message and a remedy. Unless the message says so, nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    pub message: String,
    /// For the `hint:` line.
    pub hint: String,
}

impl Failed {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failed {
        Failed {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The daemon answered with something else than was asked.
    pub fn unexpected() -> Failed {
        Failed::new(
            "the daemon's answer was not understood",
            "is it of the same version? see `armento --version` and the daemon's log",
        )
    }
}

impl From<AskError> for Failed {
    fn from(e: AskError) -> Failed {
        Failed::new(e.to_string(), e.hint())
    }
}
