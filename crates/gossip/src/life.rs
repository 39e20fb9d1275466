//! The rarely changing part of a node's report: shared by all rows and messages that contain it.

use crate::{CpuSet, Entry, Wire};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Longest version string that is passed on.
pub(crate) const VERSION_BYTES_MAX: usize = 32;
/// Longest vendor string that is passed on (CPUID gives 12).
pub(crate) const VENDOR_BYTES_MAX: usize = 12;

/// Facts that nodes with the same hardware and version have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Build {
    pub kind: u32,
    pub cores: u32,
    pub cpu: CpuSet,
    pub wire: Wire,
    pub version: String,
    /// [`Entry::share_permille`].
    pub share_permille: u32,
}

/// A build with values computed from it once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub build: Build,
    /// Equal for equal builds.
    pub digest: u64,
    /// Encoded size.
    pub bytes: usize,
}

/// The part of an entry that hardly ever changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub mem_total_kib: u64,
    pub speed: u32,
    pub build: Arc<Shared>,
    /// The build's digest: read for every item of every message.
    pub digest: u64,
}

/// One incarnation of a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub boot: u64,
    /// Counts the changes of facts of that incarnation.
    pub rev: u32,
    /// Absent until they were received.
    pub facts: Option<Facts>,
    /// Encoded size of all this, without the build.
    pub bytes: usize,
}

impl Life {
    pub fn new(boot: u64, rev: u32, facts: Option<Facts>) -> Arc<Life> {
        // Without facts two zeros are encoded in their place.
        let speed_and_memory = |f: &Facts| varint(f.speed.into()) + varint(f.mem_total_kib);
        let about = facts.as_ref().map_or(2, speed_and_memory);
        Arc::new(Life {
            boot,
            rev,
            bytes: varint(boot) + varint(rev.into()) + about,
            facts,
        })
    }
}

impl Build {
    pub fn of(entry: &Entry) -> Build {
        Build {
            kind: entry.kind,
            cores: entry.cores,
            cpu: entry.cpu.clone(),
            wire: entry.wire,
            version: entry.version.clone(),
            share_permille: entry.share_permille,
        }
    }

    pub fn shared(self) -> Arc<Shared> {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        Arc::new(Shared {
            digest: hasher.finish(),
            bytes: self.bytes(),
            build: self,
        })
    }

    fn bytes(&self) -> usize {
        let numbers = [
            self.kind,
            self.cores,
            self.cpu.xsave_bytes,
            self.share_permille,
        ];
        let flags = numbers.iter().chain(&self.cpu.flags);
        let numbers: usize = flags.map(|&n| varint(n.into())).sum();
        let texts = text(self.cpu.vendor.len()) + text(self.version.len());
        numbers + varint(self.cpu.xcr0) + texts + 1
    }

    /// Whether a correct node could report this; everything else is dropped unread.
    pub fn is_valid(&self) -> bool {
        (1..=65_536).contains(&self.cores)
            && (1..=1000).contains(&self.share_permille)
            && self.version.len() <= VERSION_BYTES_MAX
            && self.cpu.vendor.len() <= VENDOR_BYTES_MAX
    }
}

impl Facts {
    pub fn new(mem_total_kib: u64, speed: u32, build: Arc<Shared>) -> Facts {
        Facts {
            mem_total_kib,
            speed,
            digest: build.digest,
            build,
        }
    }

    /// Whether `entry` contains the same facts.
    pub fn are_of(&self, entry: &Entry) -> bool {
        let (b, e) = (&self.build.build, entry);
        (self.mem_total_kib, self.speed) == (e.mem_total_kib, e.speed)
            && (b.kind, b.cores, b.wire) == (e.kind, e.cores, e.wire)
            && (&b.cpu, &b.version, b.share_permille) == (&e.cpu, &e.version, e.share_permille)
    }

    /// Encoded size within an item, which contains no share.
    pub fn bytes(&self) -> usize {
        let share = varint(self.build.build.share_permille.into());
        varint(self.mem_total_kib) + varint(self.speed.into()) + self.build.bytes - share
    }
}

/// Bytes of a number in postcard's encoding: seven bits each.
pub(crate) fn varint(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes of a text or list of that length.
pub(crate) fn text(len: usize) -> usize {
    varint(len as u64) + len
}

pub(crate) fn crop(text: &mut String, bytes_max: usize) {
    while text.len() > bytes_max {
        text.pop();
    }
}
