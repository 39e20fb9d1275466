//! What the kernel stores of an area beside its protection and its backing: mmap's flags, the advice of madvise(2),
//! mlock(2).
//!
//! KERNEL: proc_pid_smaps(5), the line VmFlags; there is no other way to read them. Reading it walks the pages, too.

use super::area::{Area, Flags, LOCKED, LOCKED_ON_FAULT, WORDS};
use super::names::{self, Name};
use super::objects;
use crate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::maps::{self, Vma};
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use armento_tracee::status;

/// A process for which reading flags takes longer than this, microseconds, is read right before the freeze and not
/// again after it. What it maps or advises in that moment travels without its flags.
const LOOK_MAX_US: u64 = 1500;
/// Cost of reading flags, measured on 6.18: 19 ms a GiB in 4 KiB pages, and 2.5 us a mapping.
const LOOK_US_GIB: u64 = 19_000;
const LOOK_NS_MAPPING: u64 = 2_500;

/// Locks again what was locked. Before: the pages are there. A node may allow less locked memory than home did.
pub fn lock_calls(areas: &[Area]) -> Vec<Call> {
    let locked = areas.iter().filter(|a| a.flags.has(LOCKED));
    let call = |a: &Area| {
        let on_fault = u64::from(a.flags.has(LOCKED_ON_FAULT));
        let args = [a.start, a.end - a.start, on_fault, 0, 0, 0];
        (libc::SYS_mlock2, args)
    };
    locked.map(call).collect()
}

/// Bytes of zero pages that are created at a target during the pause: 0.7 us a page in one run and 1.6 for a single one
/// (measured, 6.18), so 0.4 ms at most. The others are created on access; only mincore(2) could tell.
pub const ZEROS_MAX: u64 = 1 << 20;

/// Creates the zero page where the source had it, within [`ZEROS_MAX`] even if the source sends more. Before: the other
/// pages are there. A hint: unreadable memory cannot be populated. KERNEL: MADV_POPULATE_READ since 5.14.
pub fn zero_calls(zeros: &[Run]) -> Vec<Call> {
    let advice = libc::MADV_POPULATE_READ as u64;
    let mut left = ZEROS_MAX;
    let fits = zeros.iter().map_while(|r| {
        let len = r.1.checked_sub(r.0)?;
        left = left.checked_sub(len)?;
        Some((libc::SYS_madvise, [r.0, len, advice, 0, 0, 0]))
    });
    fits.collect()
}

/// KERNEL: asm-generic/mman-common.h, since 6.13.
const MADV_GUARD_INSTALL: u64 = 102;

/// Creates guard regions again: any access to them faults. Before: nothing is locked yet, since locked memory cannot
/// have them.
pub fn guard(h: &mut Hold, code: &Code, guards: &[Run]) -> Result<()> {
    let call = |r: &Run| {
        let args = [r.0, r.1 - r.0, MADV_GUARD_INSTALL, 0, 0, 0];
        (libc::SYS_madvise, args)
    };
    let calls: Vec<Call> = guards.iter().map(call).collect();
    match h.batch(code, &calls)?.iter().all(|r| *r == 0) {
        true => Ok(()),
        false => {
            let why = "it has guard regions (MADV_GUARD_INSTALL), which need Linux 6.13";
            Err(MigrateError::Stays(Stay::KernelTooOld, why.into()))
        }
    }
}

/// Unlocks locked memory, which cannot be emptied otherwise.
pub fn unlock_calls(areas: &[Area]) -> Vec<Call> {
    let locked = areas.iter().filter(|a| a.flags.has(LOCKED));
    locked
        .map(|a| (libc::SYS_munlock, [a.start, a.end - a.start, 0, 0, 0, 0]))
        .collect()
}

/// Flags beside [`WORDS`] of mappings that travel: protection, sharing, accounting, and state of the content (`sd`:
/// soft-dirty; `dp`: droppable, and may be empty at any time).
const PLAIN: [&str; 15] = [
    "rd",
    "wr",
    "ex",
    "sh",
    "mr",
    "mw",
    "me",
    "ms",
    "ac",
    "de",
    "sd",
    "dp",
    "sl",
    WATCHED,
    maps::OWN_TEXT,
];
const WATCHED: &str = "uw";
/// KERNEL: xol_add_vma, kernel/events/uprobes.c.
const UPROBES: &str = "[uprobes]";

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|w| w == word)
}

/// A mapping that by its flags is more than memory: hugetlb pages, userfaultfd memory of another process, a device, or
/// flags unknown to this program. Mappings that the kernel made do not count.
fn uncarried((v, words): &(Vma, String)) -> Option<(Vma, String)> {
    if v.is_vdso() || v.is_vsyscall() {
        return None;
    }
    let known = |w: &&str| WORDS.contains(w) || PLAIN.contains(w);
    let unknown: Vec<&str> = words.split_whitespace().filter(|w| !known(w)).collect();
    (!unknown.is_empty()).then(|| (v.clone(), unknown.join(" ")))
}

/// The flags of a process's mappings at one moment.
#[derive(Clone, Debug)]
pub struct Noted {
    flags: Vec<(Run, Flags)>,
    /// A mapping of the program that is sealed.
    pub sealed: Option<Vma>,
    /// A mapping with flags that cannot be transferred, and those flags.
    pub uncarried: Option<(Vma, String)>,
    /// A mapping with writes tracked by userfaultfd: by a move in progress, or else by another process.
    pub watched: Option<(Vma, String)>,
    /// Mappings of program text that differ from their file.
    pub patched: Vec<Vma>,
    /// Shared memory whose content could not be brought home.
    pub unwritable: Option<Vma>,
    /// Whether the kernel's page for uprobes is mapped.
    pub probed: bool,
    /// Memory with a name.
    pub names: Vec<Name>,
}

impl Noted {
    pub fn now(pid: i32) -> Result<Noted> {
        let all = maps::flags(pid).map_err(|_| MigrateError::Ended)?;
        let flags = all
            .iter()
            .map(|(v, words)| ((v.start, v.end), Flags::of(words)));
        Ok(Noted {
            flags: flags.filter(|(_, f)| *f != Flags::default()).collect(),
            sealed: maps::sealed(&all).cloned(),
            uncarried: all.iter().find_map(uncarried),
            watched: all.iter().find(|(_, f)| has(f, WATCHED)).cloned(),
            patched: {
                let of = all.iter().filter(|(_, f)| has(f, maps::OWN_TEXT));
                of.map(|(v, _)| v.clone()).collect()
            },
            unwritable: {
                let mut of = all.iter();
                of.find(|(v, f)| objects::unwritable_memfd(v, has(f, "mw")))
                    .map(|(v, _)| v.clone())
            },
            probed: all.iter().any(|(v, _)| v.name == UPROBES),
            names: names::of(all.iter().map(|(v, _)| v)),
        })
    }

    /// Before: it runs and will be frozen at once. `mappings`: about how many it has.
    pub fn before_freeze(pid: i32, mappings: usize) -> Option<Noted> {
        let pages_us = (status::rss_kib(pid) * LOOK_US_GIB) >> 20;
        let took = pages_us + mappings as u64 * LOOK_NS_MAPPING / 1000;
        (took > LOOK_MAX_US).then(|| Noted::now(pid).ok()).flatten()
    }

    /// Before: frozen. `before`: the result of [`Noted::before_freeze`].
    pub fn frozen(pid: i32, before: Option<Noted>) -> Result<Noted> {
        before.map_or_else(|| Noted::now(pid), Ok)
    }

    /// Sets the flags of `areas`. An area that was several mappings then gets the flags of its largest part.
    pub fn mark(&self, areas: &mut [Area]) {
        for a in areas {
            let shared = |(s, e): Run| e.min(a.end).saturating_sub(s.max(a.start));
            // Sorted and disjoint, as /proc lists them.
            let first = self.flags.partition_point(|(run, _)| run.1 <= a.start);
            let near = self.flags[first..]
                .iter()
                .take_while(|(run, _)| run.0 < a.end);
            let known = near.max_by_key(|(run, _)| shared(*run));
            a.flags = known.map_or(Flags::default(), |(_, f)| *f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::area::{Flags, GROWS, Kind};
    use super::*;

    #[test]
    fn advice_is_set_and_cleared() {
        let run = (0x1000, 0x3000);
        let advice = |f: Flags, old: Flags| {
            let (must, hints) = f.calls(old, run);
            let of = |c: &Call| {
                assert_eq!((c.0, c.1[0], c.1[1]), (libc::SYS_madvise, 0x1000, 0x2000));
                c.1[2] as i32
            };
            let (must, hints): (Vec<i32>, Vec<i32>) = (
                must.iter().map(of).collect(),
                hints.iter().map(of).collect(),
            );
            (must, hints)
        };
        let none = Flags::default();
        let some = Flags::of("rd wr mr dc nh sd");
        assert_eq!(
            advice(some, none),
            (vec![libc::MADV_DONTFORK], vec![libc::MADV_NOHUGEPAGE])
        );
        assert_eq!(advice(some, some), (vec![], vec![]));
        assert_eq!(
            advice(Flags::of("wf rr"), Flags::of("dc sr")),
            (
                vec![libc::MADV_DOFORK, libc::MADV_WIPEONFORK],
                vec![libc::MADV_NORMAL, libc::MADV_RANDOM]
            )
        );
        assert_eq!(
            Flags::of("gd nr dd").of_mmap(),
            libc::MAP_GROWSDOWN | libc::MAP_NORESERVE
        );
        assert!(!Flags::of("gd").mapped_as(none) && some.mapped_as(none));
    }

    #[test]
    fn zero_pages_are_created_within_bounds() {
        let call = |r: Run| (libc::SYS_madvise, [r.0, r.1 - r.0, 22, 0, 0, 0]);
        let small = (0x1000, 0x3000);
        assert_eq!(zero_calls(&[small]), [call(small)]);
        // A hostile source may send anything.
        assert_eq!(zero_calls(&[small, (0, 1 << 46)]), [call(small)]);
        assert_eq!(zero_calls(&[(0x3000, 0x1000), small]), []);
    }

    #[test]
    fn areas_get_the_flags_of_their_largest_part() {
        let area = |start, end| Area {
            start,
            end,
            prot: 3,
            kind: Kind::Anon,
            flags: Flags::default(),
        };
        let noted = Noted {
            flags: vec![
                ((0x1000, 0x2000), Flags::of("dc")),
                ((0x2000, 0x8000), GROWS),
            ],
            sealed: None,
            uncarried: None,
            watched: None,
            patched: Vec::new(),
            unwritable: None,
            probed: false,
            names: Vec::new(),
        };
        let mut areas = [area(0x1000, 0x9000), area(0x9000, 0xa000)];
        noted.mark(&mut areas);
        assert_eq!((areas[0].flags, areas[1].flags), (GROWS, Flags::default()));
    }

    #[test]
    fn own_memory_shows_its_advice() {
        let page = vec![1u8; 3 << 20];
        assert!(page.iter().all(|b| *b == 1));
        let at = page.as_ptr() as u64;
        let all = Noted::now(std::process::id() as i32).expect("own smaps");
        let mut own = [Area {
            start: at,
            end: at + 4096,
            prot: 3,
            kind: Kind::Anon,
            flags: GROWS,
        }];
        all.mark(&mut own);
        assert!(!own[0].flags.has(GROWS));
        assert!(lock_calls(&own).is_empty() && unlock_calls(&own).is_empty());
    }
}
