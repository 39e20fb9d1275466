//! What a mount is told at its start.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// For how long a call waits for a node that does not answer.
    pub deadline: Duration,
    /// Attributes and names are kept while servers tell of changes.
    pub cache: bool,
}
