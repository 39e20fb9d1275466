//! The source is a checkpoint: what was kept is sent as if it were a process that stands still.
//!
//! From: `keeper/src/safe/recover.rs`, after the offer. Next: `state.rs`.

use super::job::{BLOCK, Job};
use super::send_pages::plain;
use crate::Result;
use crate::image::Layout;
use crate::pages::PageStore;
use armento_wire::{bulk, talk, write_frame};
use std::io::{Read, Write};
use std::time::Instant;

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Whether the target needs the vDSO that the process started with.
    pub fn needs_vdso(&self) -> bool {
        self.wants_vdso
    }

    /// Sends the layout and every page that was kept.
    pub fn stored(&mut self, layout: &Layout, pages: &PageStore) -> Result<()> {
        write_frame(self.w, bulk::LAYOUT, &[&talk::encode(layout)])?;
        self.pack.begin(plain(&layout.areas));
        for run in pages.runs(BLOCK as u64) {
            let begun = Instant::now();
            let len = (run.1 - run.0) as usize;
            let bytes = &mut self.block.buf[..len];
            pages.read_run(run, bytes)?;
            self.bytes += self.pack.send(self.w, &[(run.0, len)], bytes, begun)?;
        }
        Ok(())
    }
}
