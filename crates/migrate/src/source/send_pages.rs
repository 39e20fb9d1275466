//! Reads pages of the process and sends them.
//!
//! From: `precopy.rs`, `dirty.rs`, `migrate/src/postcopy/push.rs`. Next: `migrate/src/pages/dedup.rs`.

use super::job::{BLOCK, Block, Job};
use crate::image::flags;
use crate::image::{Area, Kind};
use crate::{MigrateError, Result};
use armento_tracee::pages::{self, Backing, Pagemap, Run};
use armento_tracee::{PAGE, sys};
use armento_wire::{bulk, read_frame, talk, write_frame};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Size of a huge page on x86-64.
const HUGE_PAGE: u64 = 2 << 20;
/// process_vm_readv takes at most IOV_MAX ranges.
const RANGES: usize = 1024;
/// If less than this was written since the last round, it is sent in the pause: a millisecond.
pub(super) const LATE_MIN: u64 = 1 << 20;

impl<R: Read, W: Write> Job<'_, R, W> {
    pub(crate) fn read_answer(&mut self, buf: &mut Vec<u8>) -> Result<u8> {
        let r = self.r.as_mut().ok_or(MigrateError::Ended)?;
        Ok(read_frame(&mut **r, buf)?)
    }

    /// Waits until the target has written all pages. Sockets hold megabytes: what they hold at the freeze would add to
    /// the pause.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.pack.begin(Vec::new());
        write_frame(self.w, bulk::SYNC, &[])?;
        let mut buf = Vec::new();
        match self.read_answer(&mut buf)? {
            bulk::SYNCED => {
                // A range that the process unmapped may be unmapped there before we notice. If it is mapped again in
                // the end, it counts as not sent.
                let mut lost: Vec<Run> = talk::decode(&buf, "answer to a round")?;
                lost.retain(|r| r.0 < r.1);
                if !lost.is_empty() {
                    lost.append(&mut self.lost);
                    self.lost = pages::union(lost, &[]);
                    self.sent = pages::minus(&self.sent, &self.lost);
                }
                Ok(())
            }
            _ => Err(armento_wire::WireError::Garbled("answer to a round").into()),
        }
    }

    /// Sends these pages at once. Returns the bytes on the link; an error if they cannot be read.
    pub fn now(&mut self, runs: &[Run]) -> Result<u64> {
        let (read, sent) = (self.read, self.bytes);
        // The program runs, so no earlier page is certain to be unchanged at the target.
        self.pack.begin(Vec::new());
        self.put(runs)?;
        self.flush()?;
        if self.read - read < pages::total(runs) {
            // It was killed or changed here: missing pages would be missing there for good.
            return Err(MigrateError::Ended);
        }
        Ok(self.bytes - sent)
    }

    pub(super) fn runs(&mut self, runs: &[Run]) -> Result<()> {
        self.huge(runs);
        self.put(runs)?;
        self.sent = pages::union(std::mem::take(&mut self.sent), runs);
        self.breathe();
        Ok(())
    }

    /// Announces whole huge pages in `runs`, so that the target creates huge pages too.
    fn huge(&mut self, runs: &[Run]) {
        let whole = |r: &Run| (r.0.next_multiple_of(HUGE_PAGE), r.1 / HUGE_PAGE * HUGE_PAGE);
        for run in runs.iter().map(whole).filter(|r| r.0 < r.1) {
            let map = match &self.map {
                Some(m) => m,
                None => match Pagemap::open(self.pid) {
                    Ok(m) => self.map.insert(m),
                    Err(_) => return,
                },
            };
            for found in map.huge(run).unwrap_or_default() {
                self.pack.is_huge(found);
            }
        }
    }

    fn put(&mut self, runs: &[Run]) -> Result<()> {
        for &(mut at, end) in runs {
            while at < end {
                let room = BLOCK - self.block.len;
                let n = ((end - at) as usize).min(room);
                self.block.runs.push((at, n));
                self.block.len += n;
                at += n as u64;
                if self.block.len == BLOCK || self.block.runs.len() == RANGES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let b = &mut self.block;
        if b.len == 0 {
            return Ok(());
        }
        let begun = Instant::now();
        let got = sys::vm_read_many(self.pid, &b.runs, &mut b.buf);
        if !matches!(got, Ok(n) if n == b.len) {
            one_by_one(self.pid, b);
        }
        self.read += b.len as u64;
        let bytes = &mut b.buf[..b.len];
        self.bytes += self.pack.send(self.w, &b.runs, bytes, begun)?;
        b.runs.clear();
        b.len = 0;
        self.breathe();
        Ok(())
    }

    /// Gives way to the process while it runs.
    pub(super) fn breathe(&self) {
        if let Some(p) = &self.patient {
            p.breathe();
        }
    }
}

/// Memory that is private to the process.
pub(super) fn plain(areas: &[Area]) -> Vec<Run> {
    let own = areas.iter().filter(|a| a.backing() == Backing::Memory);
    pages::union(own.map(Area::run).collect(), &[])
}

/// Memory whose pages a target can fetch while the program runs. A stack is excluded: it grows automatically, and is
/// small.
pub(super) fn can_wait(areas: &[Area]) -> Vec<Run> {
    // Locked memory must be there before it runs.
    let free = |a: &&Area| flags::lock_calls(std::slice::from_ref(*a)).is_empty();
    let plain = areas.iter().filter(|a| a.kind == Kind::Anon).filter(free);
    pages::union(plain.map(Area::run).collect(), &[])
}

/// Skips pages that were unmapped meanwhile (only before the freeze) or lie beyond the end of their file; everything
/// readable after them is still sent.
fn one_by_one(pid: i32, b: &mut Block) {
    let mem = std::fs::File::open(format!("/proc/{pid}/mem")).ok();
    let mut runs = Vec::new();
    let mut len = 0;
    for &(addr, n) in &b.runs {
        let end = addr + n as u64;
        let mut at = addr;
        while at < end {
            let want = (end - at) as usize;
            let got = force_read(&mem, pid, at, &mut b.buf[len..len + want]);
            if got > 0 {
                runs.push((at, got));
                len += got;
                at += got as u64;
            } else {
                at = (at & !(PAGE - 1)) + PAGE;
            }
        }
    }
    b.runs = runs;
    b.len = len;
}

/// Reads also what the process itself may not read (PROT_NONE): /proc/PID/mem ignores protections.
fn force_read(mem: &Option<std::fs::File>, pid: i32, at: u64, buf: &mut [u8]) -> usize {
    match sys::vm_read(pid, at, buf) {
        Ok(n) if n > 0 => n,
        _ => mem
            .as_ref()
            .and_then(|f| f.read_at(buf, at).ok())
            .unwrap_or(0),
    }
}
