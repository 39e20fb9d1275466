//! One memory area: where it is, what backs it, and its flags and advice.

use armento_tracee::call::Call;
use armento_tracee::pages::{Backing, Run};
use armento_wire::talk::{FileKey, ObjectId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    pub prot: i32,
    pub kind: Kind,
    pub flags: Flags,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Anon,
    /// Grows down automatically.
    Stack,
    /// Private view of a file; `shared` when home maps it shared and read-only.
    File {
        key: FileKey,
        off: u64,
        shared: bool,
    },
    /// Other processes can write it, too.
    Shared {
        object: ObjectId,
        off: u64,
    },
}

impl Area {
    pub fn run(&self) -> Run {
        (self.start, self.end)
    }

    /// Whether the kernel extends it automatically.
    pub fn grows(&self) -> bool {
        self.kind == Kind::Stack || self.flags.has(GROWS)
    }

    pub fn backing(&self) -> Backing {
        match self.kind {
            Kind::File { .. } | Kind::Shared { .. } => Backing::File,
            _ => Backing::Memory,
        }
    }
}

/// The files behind these areas, each once.
pub fn files_of(areas: &[Area]) -> Vec<FileKey> {
    let mut keys: Vec<FileKey> = areas
        .iter()
        .filter_map(|a| match a.kind {
            Kind::File { key, .. } => Some(key),
            _ => None,
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// One bit for each of [`WORDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags(u16);

/// In the spelling of smaps.
pub(super) const WORDS: [&str; 12] = [
    "gd", "nr", "dc", "wf", "dd", "hg", "nh", "mg", "sr", "rr", "lo", "lf",
];
pub const GROWS: Flags = Flags(1 << 0);
pub const NO_RESERVE: Flags = Flags(1 << 1);
pub(super) const LOCKED: Flags = Flags(1 << 10);
pub(super) const LOCKED_ON_FAULT: Flags = Flags(1 << 11);
/// For madvise: the bit, the advice that sets it, the advice that clears it. The two for huge pages can only be
/// replaced by each other.
const ADVICE: [(u16, i32, i32); 8] = [
    (1 << 2, libc::MADV_DONTFORK, libc::MADV_DOFORK),
    (1 << 3, libc::MADV_WIPEONFORK, libc::MADV_KEEPONFORK),
    (1 << 4, libc::MADV_DONTDUMP, libc::MADV_DODUMP),
    (1 << 5, libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE),
    (1 << 6, libc::MADV_NOHUGEPAGE, libc::MADV_HUGEPAGE),
    (1 << 7, libc::MADV_MERGEABLE, libc::MADV_UNMERGEABLE),
    (1 << 8, libc::MADV_SEQUENTIAL, libc::MADV_NORMAL),
    (1 << 9, libc::MADV_RANDOM, libc::MADV_NORMAL),
];
/// Flags whose effect a program can observe; the rest is for speed, and a kernel without it returns EINVAL.
const MUST: u16 = 0b1_1100;

impl Flags {
    pub(super) fn of(words: &str) -> Flags {
        let bit = |w: &str| WORDS.iter().position(|x| *x == w).map_or(0, |i| 1 << i);
        Flags(words.split_whitespace().map(bit).sum())
    }

    pub fn has(self, f: Flags) -> bool {
        self.0 & f.0 == f.0
    }

    pub fn with(self, f: Flags) -> Flags {
        Flags(self.0 | f.0)
    }

    /// Flags with which an area must be mapped: they cannot be changed later.
    pub fn of_mmap(self) -> i32 {
        let grows = if self.has(GROWS) {
            libc::MAP_GROWSDOWN
        } else {
            0
        };
        let unreserved = if self.has(NO_RESERVE) {
            libc::MAP_NORESERVE
        } else {
            0
        };
        grows | unreserved
    }

    /// Whether both were mapped with the same flags.
    pub fn mapped_as(self, other: Flags) -> bool {
        self.of_mmap() == other.of_mmap()
    }

    /// Calls that change `run` from flags `old` to these: those that must succeed, and hints.
    pub fn calls(self, old: Flags, run: Run) -> (Vec<Call>, Vec<Call>) {
        let (mut must, mut hints) = (Vec::new(), Vec::new());
        let changed = self.0 ^ old.0;
        let (gone, new) = (changed & old.0, changed & self.0);
        // Clearing one may clear its opposite too, so clearing comes first.
        let back = ADVICE
            .iter()
            .filter(|a| gone & a.0 != 0)
            .map(|a| (a.0, a.2));
        let set = ADVICE.iter().filter(|a| new & a.0 != 0).map(|a| (a.0, a.1));
        for (bit, advice) in back.chain(set) {
            let args = [run.0, run.1 - run.0, advice as u64, 0, 0, 0];
            let list = if bit & MUST != 0 {
                &mut must
            } else {
                &mut hints
            };
            list.push((libc::SYS_madvise, args));
        }
        (must, hints)
    }
}
