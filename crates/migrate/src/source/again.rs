//! What a source remembers of a checkpoint for the next one, which sends what was written since.
//!
//! From: `host/src/moves/depart.rs`. Next: `precopy.rs`.

use super::job::Job;
use crate::pages::Watch;
use armento_model::MoveId;
use armento_tracee::pages::Run;
use std::io::{Read, Write};

/// Pages that home keeps, and from when on writes to them are tracked.
pub struct SentBefore {
    /// The move that brought them.
    pub by: MoveId,
    watch: Watch,
    sent: Vec<Run>,
}

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Home keeps what was sent `before`.
    pub fn goes_on_from(&mut self, before: SentBefore) {
        self.watch = before.watch;
        self.sent = before.sent;
    }

    /// Everything was sent, by the move `by`, and the process goes on. `None`: the next checkpoint must be whole.
    pub fn remember(&mut self, by: MoveId) -> Option<SentBefore> {
        let watch = std::mem::take(&mut self.watch);
        let sent = std::mem::take(&mut self.sent);
        watch.has_room().then_some(SentBefore { by, watch, sent })
    }
}
