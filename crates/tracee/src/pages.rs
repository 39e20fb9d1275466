//! Which pages a process has, and which it wrote since they were write-protected (see `uffd.rs`): PAGEMAP_SCAN.
//!
//! KERNEL: Documentation/admin-guide/mm/pagemap.rst (6.7).

use crate::{PAGE, sys};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// A run of pages: start address, end address.
pub type Run = (u64, u64);

const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const PFNZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;
/// A page of a guard region (MADV_GUARD_INSTALL, 6.13), reported separately since 6.15.
const GUARD: u64 = 1 << 8;
const SCAN_WP: u64 = 1 << 0;
/// _IOWR('f', 16, struct pm_scan_arg) with its 96 bytes.
const PAGEMAP_SCAN: u64 = 0xc060_6610;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    anyof: u64,
    want: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Limit of zero-page runs per mapping: one system call.
const ZERO_RUNS: usize = 512;

/// What backs a mapping. The kernel distinguishes a file page from a private one only by examining the page itself: 20
/// ns each, four times the cost of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    Memory,
    File,
}

/// Pages that hold the process's own data, by where they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub present: Vec<Run>,
    /// Swapped out, in migration, or a userfaultfd marker on a page that never existed.
    pub swapped: Vec<Run>,
    /// Guard regions: any access to them faults.
    pub guards: Vec<Run>,
}

impl Held {
    pub fn all(self) -> Vec<Run> {
        union(self.present, &self.swapped)
    }
}

/// What happened to write-protected memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub written: Vec<Run>,
    /// No page is left, or only the zero page.
    pub empty: Vec<Run>,
    pub guards: Vec<Run>,
}

pub struct Pagemap(File);

impl Pagemap {
    pub fn open(pid: i32) -> io::Result<Pagemap> {
        File::open(format!("/proc/{pid}/pagemap")).map(Pagemap)
    }

    /// Pages of `range` that hold the process's own data: present, not the zero page, not a clean file page.
    pub fn held(&self, range: Run, backing: Backing) -> io::Result<Held> {
        let mut held = Held::default();
        self.scan(range, own(backing), |run, is| {
            let part = if is & GUARD != 0 {
                &mut held.guards
            } else if is & PRESENT != 0 {
                &mut held.present
            } else {
                &mut held.swapped
            };
            grow(part, run);
        })?;
        Ok(held)
    }

    /// Up to `max` pages of `range` that are the zero page, the lowest first. They are not accounted to the process:
    /// there may be gigabytes of them.
    pub fn zeros(&self, range: Run, max: u64) -> io::Result<Vec<Run>> {
        let mut vec = vec![Region::default(); ZERO_RUNS];
        let mut query = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: range.0,
            end: range.1,
            vec: vec.as_mut_ptr() as u64,
            vec_len: vec.len() as u64,
            max_pages: max,
            mask: PRESENT | PFNZERO,
            want: PRESENT,
            ..ScanArg::default()
        };
        if max == 0 {
            return Ok(Vec::new());
        }
        let n = match sys::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut query) {
            // On an old kernel they are transferred as pages of zeros.
            Err(e) if too_old(&e) => return Ok(Vec::new()),
            n => n? as usize,
        };
        Ok(vec[..n].iter().map(|r| (r.start, r.end)).collect())
    }

    /// Parts of `range` that lie in huge pages. 3 ns a page where there is none.
    pub fn huge(&self, range: Run) -> io::Result<Vec<Run>> {
        let mut huge = Vec::new();
        let query = ScanArg {
            mask: PRESENT | HUGE,
            want: PRESENT,
            ..ScanArg::default()
        };
        self.scan(range, query, |run, _| grow(&mut huge, run))?;
        Ok(huge)
    }

    /// Address of the first page of `range` that exists in any form. Fast on empty ranges: memory that was reserved and
    /// never touched has no page tables to walk.
    pub fn first(&self, range: Run) -> io::Result<Option<u64>> {
        let mut found = Region::default();
        let mut query = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: range.0,
            end: range.1,
            vec: &raw mut found as u64,
            vec_len: 1,
            max_pages: 1,
            anyof: PRESENT | SWAPPED,
            want: PRESENT,
            ..ScanArg::default()
        };
        let n = match sys::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut query) {
            Err(e) if too_old(&e) => {
                let mut first = None;
                self.each(range, &query, |run, _| {
                    first = Some(run.0);
                    false
                })?;
                return Ok(first);
            }
            n => n?,
        };
        Ok((n > 0).then_some(found.start))
    }

    /// The pages of [`Pagemap::held`] written since they were last write-protected; they are write-protected again.
    /// Mappings that were never registered are skipped (see [`Pagemap::written`]).
    pub fn take_written(&self, range: Run, backing: Backing) -> io::Result<Vec<Run>> {
        self.written_by(range, backing, SCAN_WP)
    }

    /// The pages of [`Pagemap::held`] written since they were last write-protected, or never write-protected. Changes
    /// nothing.
    pub fn written(&self, range: Run, backing: Backing) -> io::Result<Vec<Run>> {
        self.written_by(range, backing, 0)
    }

    fn written_by(&self, range: Run, backing: Backing, flags: u64) -> io::Result<Vec<Run>> {
        let mut out = Vec::new();
        let not = shared(backing) | guard();
        let query = ScanArg {
            flags,
            inverted: not,
            mask: not | WRITTEN,
            anyof: PRESENT | SWAPPED,
            want: PRESENT,
            ..ScanArg::default()
        };
        self.scan(range, query, |run, _| grow(&mut out, run))?;
        Ok(out)
    }

    /// What happened to `range`, which is write-protected as a whole and maps no file. Fast where nothing happened: 5
    /// ns a page on Linux 6.18.
    pub fn changed(&self, range: Run) -> io::Result<Changed> {
        let mut changed = Changed::default();
        let query = ScanArg {
            inverted: PRESENT,
            anyof: PRESENT | WRITTEN,
            want: PRESENT | SWAPPED | PFNZERO | WRITTEN | guard(),
            ..ScanArg::default()
        };
        self.scan(range, query, |run, is| {
            if is & GUARD != 0 {
                grow(&mut changed.guards, run);
            } else if is & (PRESENT | SWAPPED) == 0 || is & PFNZERO != 0 {
                grow(&mut changed.empty, run);
            } else if is & WRITTEN != 0 {
                grow(&mut changed.written, run);
            }
        })?;
        Ok(changed)
    }

    fn scan(&self, range: Run, query: ScanArg, mut found: impl FnMut(Run, u64)) -> io::Result<()> {
        let mut at = range.0;
        let mut vec = vec![Region::default(); 512];
        while at < range.1 {
            let mut a = ScanArg {
                size: size_of::<ScanArg>() as u64,
                start: at,
                end: range.1,
                vec: vec.as_mut_ptr() as u64,
                vec_len: vec.len() as u64,
                ..query
            };
            let n = match sys::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut a) {
                Err(e) if too_old(&e) => {
                    return self.each((at, range.1), &a, |run, is| {
                        found(run, is);
                        true
                    });
                }
                n => n? as usize,
            };
            for r in &vec[..n] {
                found((r.start, r.end), r.categories);
            }
            if a.walk_end <= at {
                break;
            }
            at = a.walk_end;
        }
        Ok(())
    }

    /// Scans page by page on a kernel without PAGEMAP_SCAN, until `more` returns false. Pages that cannot be
    /// write-protected count as written; zero pages and huge pages look like any other. KERNEL:
    /// Documentation/admin-guide/mm/pagemap.rst, /proc/pid/pagemap.
    fn each(
        &self,
        range: Run,
        query: &ScanArg,
        mut more: impl FnMut(Run, u64) -> bool,
    ) -> io::Result<()> {
        let mut raw = vec![0u8; ENTRIES * 8];
        let mut at = range.0;
        while at < range.1 {
            let pages = usize::try_from((range.1 - at) / PAGE).unwrap_or(ENTRIES);
            let part = &mut raw[..pages.min(ENTRIES) * 8];
            let n = self.0.read_at(part, at / PAGE * 8)? / 8;
            for entry in part[..n * 8].as_chunks().0 {
                let is = categories(u64::from_le_bytes(*entry));
                let seen = is ^ query.inverted;
                let fits = seen & query.mask == query.mask
                    && (query.anyof == 0 || seen & query.anyof != 0);
                if fits && !more((at, at + PAGE), is & query.want) {
                    return Ok(());
                }
                at += PAGE;
            }
            // Beyond the process's address range.
            if n == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Pages per read.
const ENTRIES: usize = 8192;

/// Category bits of an entry of /proc/pid/pagemap: bit 61 file or shared, 62 swapped, 63 present.
fn categories(entry: u64) -> u64 {
    let bit = |n: u32, is: u64| if entry >> n & 1 == 1 { is } else { 0 };
    bit(61, FILE) | bit(62, SWAPPED) | bit(63, PRESENT) | WRITTEN
}

/// KERNEL: before 6.7 the file has no ioctl.
fn too_old(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENOTTY)
}

/// [`GUARD`] if this kernel reports guard regions.
fn guard() -> u64 {
    static KNOWN: OnceLock<u64> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let mut query = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: PAGE,
            end: 2 * PAGE,
            mask: GUARD,
            want: GUARD,
            ..ScanArg::default()
        };
        let own = File::open("/proc/self/pagemap");
        let asked = own.and_then(|f| sys::ioctl(f.as_raw_fd(), PAGEMAP_SCAN, &mut query));
        asked.map_or(0, |_| GUARD)
    })
}

/// Category bits of pages that are not the process's own.
fn shared(backing: Backing) -> u64 {
    match backing {
        Backing::Memory => PFNZERO,
        Backing::File => PFNZERO | FILE,
    }
}

/// Query for pages that hold the process's own data.
fn own(backing: Backing) -> ScanArg {
    let not = shared(backing);
    ScanArg {
        inverted: not,
        mask: not,
        anyof: PRESENT | SWAPPED,
        want: PRESENT | SWAPPED | guard(),
        ..ScanArg::default()
    }
}

/// Appends the next run, merging it with the last if they touch.
fn grow(runs: &mut Vec<Run>, next: Run) {
    match runs.last_mut() {
        Some(last) if last.1 == next.0 => last.1 = next.1,
        _ => runs.push(next),
    }
}

/// `a` without `b`; both sorted and disjoint.
pub fn minus(a: &[Run], b: &[Run]) -> Vec<Run> {
    let mut out = Vec::new();
    let mut i = 0;
    for &(mut s, e) in a {
        while i < b.len() && b[i].1 <= s {
            i += 1;
        }
        let mut j = i;
        while j < b.len() && b[j].0 < e {
            if b[j].0 > s {
                out.push((s, b[j].0));
            }
            s = s.max(b[j].1);
            j += 1;
        }
        if s < e {
            out.push((s, e));
        }
    }
    out
}

/// What is in `a` and in `b`; both sorted and disjoint.
pub fn both(a: &[Run], b: &[Run]) -> Vec<Run> {
    minus(a, &minus(a, b))
}

/// Sorted union.
pub fn union(mut a: Vec<Run>, b: &[Run]) -> Vec<Run> {
    a.extend_from_slice(b);
    a.sort_unstable();
    let mut out: Vec<Run> = Vec::with_capacity(a.len());
    for (s, e) in a {
        match out.last_mut() {
            Some(last) if last.1 >= s => last.1 = last.1.max(e),
            _ => out.push((s, e)),
        }
    }
    out
}

/// Bytes in all runs.
pub fn total(a: &[Run]) -> u64 {
    a.iter().map(|r| r.1 - r.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_arithmetic() {
        assert_eq!(
            minus(&[(0, 10), (20, 30)], &[(3, 5), (8, 22)]),
            [(0, 3), (5, 8), (22, 30)]
        );
        assert_eq!(minus(&[(0, 10)], &[]), [(0, 10)]);
        assert_eq!(minus(&[(4, 6)], &[(0, 10)]), []);
        assert_eq!(union(vec![(0, 2), (8, 9)], &[(2, 4), (3, 8)]), [(0, 9)]);
        assert_eq!(both(&[(0, 10), (20, 30)], &[(5, 25)]), [(5, 10), (20, 25)]);
        assert_eq!(total(&[(0, 2), (5, 6)]), 3);
    }

    #[test]
    fn own_written_page_is_held() {
        let page = vec![1u8; 3 * 4096];
        let start = (page.as_ptr() as u64 + 4095) & !4095;
        let pm = Pagemap::open(std::process::id() as i32).expect("own pagemap");
        for backing in [Backing::Memory, Backing::File] {
            let held = pm.held((start, start + 4096), backing).expect("scan");
            assert_eq!(held.present, [(start, start + 4096)]);
            assert_eq!(held.swapped, []);
        }
        assert_eq!(pm.first((start, start + 4096)).expect("scan"), Some(start));
        // The first page is never mapped.
        assert_eq!(pm.first((0, 4096)).expect("scan"), None);
    }

    #[test]
    fn scan_page_by_page_works_without_pagemap_scan() {
        let pages = vec![1u8; 9000 * 4096];
        let start = (pages.as_ptr() as u64 + 4095) & !4095;
        let range = (start, start + 8999 * 4096);
        let pm = Pagemap::open(std::process::id() as i32).expect("own pagemap");
        let query = own(Backing::File);
        let mut held = Vec::new();
        let all = pm.each(range, &query, |run, _| {
            grow(&mut held, run);
            true
        });
        all.expect("read");
        assert_eq!(held, [range]);
        let mut count = 0;
        let some = pm.each(range, &query, |_, _| {
            count += 1;
            count < 3
        });
        some.expect("read");
        assert_eq!(count, 3);
        let none = pm.each((0, 4096), &query, |_, _| {
            panic!("the first page is never mapped")
        });
        none.expect("read");
        assert!(too_old(&io::Error::from_raw_os_error(libc::ENOTTY)));
    }

    #[test]
    fn memory_only_read_is_the_zero_page() {
        let fresh = vec![0u8; 1 << 20];
        let page = ((fresh.as_ptr() as u64) + 4 * 4096) & !4095;
        let read = fresh[(page - fresh.as_ptr() as u64) as usize];
        assert_eq!(std::hint::black_box(read), 0);
        let pm = Pagemap::open(std::process::id() as i32).expect("own pagemap");
        let run = (page, page + 4096);
        assert_eq!(pm.zeros((page, page + 8192), 9).expect("scan"), [run]);
        assert_eq!(pm.zeros(run, 0).expect("scan"), []);
        assert_eq!(
            pm.held(run, Backing::Memory).expect("scan"),
            Held::default()
        );
    }
}
