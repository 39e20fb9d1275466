//! The state of the process, which ends what a target needs before the flip.
//!
//! From: `dirty.rs`. Next: the flip, which home decides; then `migrate/src/postcopy/push.rs`.

use super::job::Job;
use crate::Result;
use crate::failpoint::point;
use crate::image::State;
use crate::phase::Failpoint;
use armento_wire::{bulk, talk, write_frame};
use std::io::{Read, Write};

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Sends the state, after which the target has everything that it needs.
    pub fn state(&mut self, state: State) -> Result<()> {
        write_frame(self.w, bulk::STATE, &[&talk::encode(&state)])?;
        write_frame(self.w, bulk::END, &[])?;
        point(Failpoint::SourceSent);
        Ok(())
    }
}
