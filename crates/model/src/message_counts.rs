//! Messages of a process at home.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Read and write calls of a process that talks over TCP, and their bytes, counted while it is at home. Those of files are
/// among them: the kernel does not count them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCounts {
    pub calls: u64,
    /// Bytes written and read.
    pub sent: u64,
    pub received: u64,
}

impl MessageCounts {
    /// What was added since `before`.
    pub fn since(self, before: MessageCounts) -> MessageCounts {
        MessageCounts {
            calls: self.calls.saturating_sub(before.calls),
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }

    pub fn plus(self, more: MessageCounts) -> MessageCounts {
        MessageCounts {
            calls: self.calls.saturating_add(more.calls),
            sent: self.sent.saturating_add(more.sent),
            received: self.received.saturating_add(more.received),
        }
    }
}
