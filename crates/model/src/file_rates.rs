//! What a process that is away does with home's files, a second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Means of the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FileRates {
    /// Calls that waited for home.
    pub waits: u64,
    /// Calls that were answered before home made them.
    pub posts: u64,
    /// Bytes from where it runs to home, and back.
    pub sent: u64,
    pub received: u64,
}

impl FileRates {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        self.sent.saturating_add(self.received)
    }
}
