//! Writes received pages into the process.
//!
//! From: `migrate/src/target.rs`.

use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::pages::{self, Run};
use armento_tracee::uffd::Uffd;
use armento_tracee::{PAGE, maps, region, sys};
use armento_wire::WireError;
use armento_wire::codec::Grow;
use armento_wire::pages::{Holds, PAGE as PAGE_LEN, Part, decode, sum};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Limit of pages without a mapping between two answers to the source: more than a program unmaps in one round, fewer
/// than fit into a frame.
const UNMAPPED_MAX: usize = 64 << 10;
/// Addresses in one vector call. KERNEL: UIO_MAXIOV.
const PARTS: usize = 1024;

/// Pages that hold older content until their own bytes come: other processes read it in the meantime.
#[derive(Clone, Default)]
pub struct StandIns(Arc<Mutex<BTreeSet<u64>>>);

impl StandIns {
    pub fn add(&self, run: Run) {
        let all = (run.0..run.1).step_by(PAGE as usize);
        self.with(|s| s.extend(all));
    }

    fn came(&self, parts: &[Part]) {
        self.with(|s| {
            if s.is_empty() {
                return;
            }
            let came = |page: u64| {
                parts
                    .iter()
                    .any(|p| page >= p.at && page - p.at < p.len as u64)
            };
            s.retain(|page| !came(*page));
        });
    }

    /// Those whose bytes never came: the source has none.
    pub fn left(&self) -> Vec<Run> {
        self.with(|s| s.iter().map(|&at| (at, at + PAGE)).collect())
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeSet<u64>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Zeros to fill pages with, a part at a time. Not the zero page: mincore(2) and the next move would treat those as
/// pages that were only read.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What becomes of the pages that come.
pub trait Sink {
    /// Takes one frame of pages. Returns its bytes.
    fn pages(&mut self, body: &[u8]) -> Result<u64>;
    /// Before: pages are about to be given up. In huge pages the kernel would fill their place with zeros as soon as a
    /// neighbouring page is written.
    fn close(&mut self) -> Result<()>;
    /// From now on every page must have a mapping.
    fn settle(&mut self);
    /// Takes the pages without a mapping since the last call: the source must count them as not sent.
    fn take_unmapped(&mut self) -> Vec<Run>;
}

/// Writes the pages of one process.
pub struct Filler {
    /// The pid on this node.
    pub pid: i32,
    /// Fills missing pages; without it all pages are written by process_vm_writev.
    pub uffd: Option<Arc<Uffd>>,
    pub stand_ins: StandIns,
    grow: Grow,
    /// Sorted: the ranges that `uffd` fills.
    filling: Vec<Run>,
    /// Pages without a mapping, collected while the process runs: what it unmaps meanwhile may be unmapped here
    /// already. `None`: the process is frozen, and such a page fails the move.
    unmapped: Option<Vec<Run>>,
    /// Blocks of [`HUGE_PAGE`] in these ranges that are left to ordinary page faults: those create huge pages, `uffd`
    /// only small ones.
    open: BTreeSet<u64>,
}

/// Size of a huge page on x86-64.
const HUGE_PAGE: u64 = 2 << 20;

impl Filler {
    pub fn new(pid: i32, uffd: Option<Arc<Uffd>>, stand_ins: StandIns) -> Filler {
        Filler {
            pid,
            uffd,
            stand_ins,
            grow: Grow::default(),
            filling: Vec::new(),
            unmapped: None,
            open: BTreeSet::new(),
        }
    }

    /// Sets the ranges that `uffd` fills; no others are.
    pub fn filling(mut self, runs: Vec<Run>) -> Filler {
        self.filling = pages::union(runs, &[]);
        self
    }

    /// Until [`Sink::settle`] its mappings here change as the process changes them.
    pub fn loose(mut self) -> Filler {
        self.unmapped = Some(Vec::new());
        self
    }

    /// Handles a page without a mapping; `e` is the cause.
    fn note_unmapped(&mut self, at: u64, e: MigrateError) -> Result<()> {
        match &mut self.unmapped {
            Some(all) if all.len() < UNMAPPED_MAX && !matches!(e, MigrateError::Ended) => {
                all.push((at, at + PAGE));
                Ok(())
            }
            _ => Err(e),
        }
    }

    fn apply(&mut self, parts: &[Part], mut rest: &[u8]) -> Result<()> {
        // The sender must not write into our region of the process.
        if !parts.iter().all(|p| region::apart(p.at, p.len as u64)) {
            return Err(WireError::Garbled("page of a program").into());
        }
        self.stand_ins.came(parts);
        for p in parts.iter().filter(|p| p.huge) {
            self.make_room(p);
        }
        let mut there: Vec<(u64, &[u8])> = Vec::new();
        for p in parts {
            match p.holds {
                Holds::Bytes => {
                    let run;
                    (run, rest) = rest.split_at(p.len);
                    for (at, n) in pieces(p, HUGE_PAGE as usize) {
                        let from = (at - p.at) as usize;
                        there.extend(self.left(at, &run[from..from + n]));
                    }
                }
                Holds::Zeros => {
                    for (at, n) in pieces(p, ZEROS.len()) {
                        there.extend(self.left(at, &ZEROS[..n]));
                    }
                }
                Holds::Like { .. } => {}
            }
        }
        self.write(&there)?;
        for p in parts {
            if let Holds::Like { at, sum } = p.holds {
                self.copy(p.at, (at, sum))?;
            }
        }
        Ok(())
    }

    /// Lets a huge page be created at `p`, unless a page exists there already.
    fn make_room(&mut self, p: &Part) {
        let Some(uffd) = &self.uffd else { return };
        let first = p.at / HUGE_PAGE * HUGE_PAGE;
        let end = p.at + p.len as u64;
        for block in (first..end).step_by(HUGE_PAGE as usize) {
            let run = (block, block + HUGE_PAGE);
            let known = pages::minus(&[run], &self.filling).is_empty();
            // If that fails, small pages are used.
            if !self.open.contains(&block) && known && uffd.filled(run).is_ok() {
                self.open.insert(block);
            }
        }
    }

    fn write(&mut self, all: &[(u64, &[u8])]) -> Result<()> {
        for parts in all.chunks(PARTS) {
            let len: usize = parts.iter().map(|p| p.1.len()).sum();
            match sys::vm_write_many(self.pid, parts) {
                Ok(wrote) if wrote == len => {}
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Err(MigrateError::Ended),
                _ => self.one_by_one(parts)?,
            }
        }
        Ok(())
    }

    /// Copies a page that equals another one sent before.
    fn copy(&mut self, at: u64, like: (u64, u64)) -> Result<()> {
        let page = match self.came_before(like) {
            Ok(page) => page,
            Err(e) => return self.note_unmapped(at, e),
        };
        match self.left(at, &page) {
            Some(left) => self.write(&[left]),
            None => Ok(()),
        }
    }

    fn came_before(&self, (from, told): (u64, u64)) -> Result<[u8; PAGE_LEN]> {
        let mut page = [0; PAGE_LEN];
        let read = sys::vm_read(self.pid, from, &mut page);
        if !matches!(read, Ok(PAGE_LEN)) {
            // The process itself may not be allowed to read it.
            let mem =
                File::open(format!("/proc/{}/mem", self.pid)).of_process("open its memory")?;
            mem.read_exact_at(&mut page, from)
                .map_err(|e| no_memory(&e))?;
        }
        if sum(&page) != told {
            let why = "a page that others are like is not as it was sent".into();
            return Err(MigrateError::Stays(Stay::TargetFailed, why));
        }
        Ok(page)
    }

    /// Fills the missing pages; returns the part that must be written.
    fn left<'a>(&self, at: u64, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let made = self.make(at, bytes);
        (made < bytes.len()).then(|| (at + made as u64, &bytes[made..]))
    }

    fn make(&self, at: u64, bytes: &[u8]) -> usize {
        if self.open.contains(&(at / HUGE_PAGE * HUGE_PAGE)) {
            return 0;
        }
        self.uffd.as_ref().map_or(0, |u| u.fill(at, bytes))
    }

    /// Whether `at` lies beyond the end of its file, which was truncated in the meantime. The kernel also removes such
    /// pages from processes that have them mapped.
    fn cut_off(&self, at: u64) -> bool {
        let missing = sys::vm_read(self.pid, at, &mut [0]).is_err();
        let all = || maps::read(self.pid).unwrap_or_default();
        let of_file = |v: &maps::Vma| v.start <= at && at < v.end && v.is_file() && v.prot != 0;
        missing && all().iter().any(of_file)
    }

    /// Some pages exist and some do not, or the mapping is read-only: write page by page. A page without a mapping
    /// fails the move: the source counts it as sent and would never send it again.
    fn one_by_one(&mut self, parts: &[(u64, &[u8])]) -> Result<()> {
        let mem = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/mem", self.pid))
            .of_process("open its memory")?;
        for (at, bytes) in parts {
            for (i, page) in bytes.chunks(PAGE as usize).enumerate() {
                let at = at + i as u64 * PAGE;
                if self.make(at, page) < page.len() && !self.cut_off(at) {
                    force_write(&mem, at, page).or_else(|e| self.note_unmapped(at, e))?;
                }
            }
        }
        Ok(())
    }
}

impl Sink for Filler {
    fn close(&mut self) -> Result<()> {
        let Some(uffd) = &self.uffd else {
            return Ok(());
        };
        let blocks = self.open.iter().map(|b| (*b, b + HUGE_PAGE)).collect();
        for run in pages::union(blocks, &[]) {
            uffd.begin_filling(run).map_err(|e| no_memory(&e))?;
        }
        self.open.clear();
        Ok(())
    }

    fn pages(&mut self, body: &[u8]) -> Result<u64> {
        let mut grow = std::mem::take(&mut self.grow);
        let told = decode(body, &mut grow)?;
        self.apply(&told.0, told.1)?;
        self.grow = grow;
        Ok(body.len() as u64)
    }

    fn settle(&mut self) {
        self.unmapped = None;
    }

    fn take_unmapped(&mut self) -> Vec<Run> {
        let all = self.unmapped.as_mut().map(std::mem::take);
        pages::union(all.unwrap_or_default(), &[])
    }
}

/// Splits a part at multiples of `most`.
fn pieces(p: &Part, most: usize) -> impl Iterator<Item = (u64, usize)> {
    let (mut at, end) = (p.at, p.at + p.len as u64);
    std::iter::from_fn(move || {
        let next = (at / most as u64 + 1).saturating_mul(most as u64).min(end);
        let piece = (at, (next - at) as usize);
        at = next;
        (piece.1 > 0).then_some(piece)
    })
}

/// Through /proc/PID/mem, which ignores the protection of a private mapping.
fn force_write(mem: &File, at: u64, bytes: &[u8]) -> Result<()> {
    mem.write_all_at(bytes, at).map_err(|e| no_memory(&e))
}

fn no_memory(e: &std::io::Error) -> MigrateError {
    match e.raw_os_error() {
        Some(libc::ESRCH) => MigrateError::Ended,
        _ => MigrateError::Stays(Stay::NoRoom, format!("its memory could not be filled: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_part_and_cross_no_block() {
        let all = |at, len, most| -> Vec<(u64, usize)> {
            let holds = Holds::Zeros;
            let huge = false;
            pieces(
                &Part {
                    at,
                    len,
                    holds,
                    huge,
                },
                most,
            )
            .collect()
        };
        assert_eq!(
            all(0x1000, 0x2000, 0x1000),
            [(0x1000, 0x1000), (0x2000, 0x1000)]
        );
        assert_eq!(
            all(0x1800, 0x1000, 0x1000),
            [(0x1800, 0x800), (0x2000, 0x800)]
        );
        assert_eq!(all(0x1000, 0x800, 0x1000), [(0x1000, 0x800)]);
        let last = u64::MAX - 0xfff;
        assert_eq!(all(last, 0xfff, 0x1000), [(last, 0xfff)]);
    }
}
