//! What a process that is away did with files, beside what home answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Calls on files that were answered where the program runs, and their bytes. What home answered is counted as forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileCounts {
    /// Writes and closes that were answered before home made them …
    pub posted: u64,
    /// … and the bytes of these writes.
    pub posted_bytes: u64,
    /// Lookups that led nowhere, and links that were read, in directories that home has sent.
    pub lookups: u64,
    /// Reads, seeks and the like of files that were read ahead …
    pub reads: u64,
    /// … and the bytes read.
    pub read_bytes: u64,
    /// Reads and writes of /dev/null and the like.
    pub devices: u64,
    /// Reads, writes, seeks and the like of files that are open where the program runs …
    #[serde(default)]
    pub direct: u64,
    /// … and the bytes read and written.
    #[serde(default)]
    pub direct_bytes: u64,
    /// Reads and writes of connections that go directly to the other process's node …
    #[serde(default)]
    pub messages: u64,
    /// … and their bytes.
    #[serde(default)]
    pub message_bytes: u64,
}

impl FileCounts {
    /// All calls that home did not have to answer.
    pub fn calls(&self) -> u64 {
        let others = [
            self.lookups,
            self.reads,
            self.devices,
            self.direct,
            self.messages,
        ];
        others.into_iter().fold(self.posted, u64::saturating_add)
    }
}

impl AddAssign for FileCounts {
    /// Another node counts: no sum of its numbers may overflow.
    fn add_assign(&mut self, other: FileCounts) {
        let add = |to: &mut u64, more| *to = to.saturating_add(more);
        add(&mut self.posted, other.posted);
        add(&mut self.posted_bytes, other.posted_bytes);
        add(&mut self.lookups, other.lookups);
        add(&mut self.reads, other.reads);
        add(&mut self.read_bytes, other.read_bytes);
        add(&mut self.devices, other.devices);
        add(&mut self.messages, other.messages);
        add(&mut self.message_bytes, other.message_bytes);
        add(&mut self.direct, other.direct);
        add(&mut self.direct_bytes, other.direct_bytes);
    }
}
