//! What travels: the fast-changing part of many entries, the slow part only where it is news.

use crate::{CpuSet, Entry, Wire};
use armento_model::NodeName;
use serde::{Deserialize, Serialize};

/// Most entries in one message: the full vector up to this many nodes, the freshest window beyond
/// (`design.md` §5: full vectors to about a thousand nodes).
pub const ITEMS_MAX: usize = 1000;

/// No message is longer, whatever serialisation of at most postcard's size is used: it fits one
/// datagram and one control line.
pub const MESSAGE_BYTES_MAX: usize = 60_000;

/// Longest version string that is passed on.
pub(crate) const VERSION_BYTES_MAX: usize = 32;
/// Longest vendor string that is passed on (CPUID gives 12).
pub(crate) const VENDOR_BYTES_MAX: usize = 12;

/// One node's news for another. Decode it with any serde format, then hand it to
/// [`crate::Vector::receive`], which trusts nothing in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub(crate) from: NodeName,
    pub(crate) items: Vec<Item>,
}

impl Message {
    pub fn from(&self) -> &NodeName {
        &self.from
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// The part of an entry that changes all the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub node: NodeName,
    pub boot: u64,
    pub seq: u64,
    /// Age when sent, milliseconds.
    pub age_ms: u32,
    pub load: u32,
    pub runnable: u32,
    pub guests: u32,
    pub mem_free_kib: u64,
    /// Which facts of that incarnation hold for this item.
    pub facts_rev: u32,
    pub facts: Option<Facts>,
}

/// The part that hardly ever changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub mem_total_kib: u64,
    pub speed: u32,
    pub kind: u32,
    pub cores: u32,
    pub cpu: CpuSet,
    pub wire: Wire,
    pub version: String,
}

/// postcard's longest integers: 5 bytes for u32, 10 for u64.
const ITEM_BYTES: usize = 1 + 10 + 10 + 5 * 4 + 10 + 5 + 1;
const FACTS_BYTES: usize = 10 + 5 + 5 + 5 + (1 + 9 * 5 + 10 + 5) + 1 + 1;
/// Name of the sender and the count of items.
pub(crate) const HEAD_BYTES: usize = 1 + 63 + 5;

impl Item {
    /// At most this many bytes on the wire.
    pub fn bytes_max(&self) -> usize {
        let facts = |f: &Facts| FACTS_BYTES + f.version.len() + f.cpu.vendor.len();
        ITEM_BYTES + self.node.as_str().len() + self.facts.as_ref().map_or(0, facts)
    }
}

impl Facts {
    pub fn of(e: &Entry) -> Facts {
        Facts {
            mem_total_kib: e.mem_total_kib,
            speed: e.speed,
            kind: e.kind,
            cores: e.cores,
            cpu: e.cpu.clone(),
            wire: e.wire,
            version: e.version.clone(),
        }
    }

    /// Facts that a sane node can state; everything else is dropped unread.
    pub fn sane(&self) -> bool {
        self.speed > 0
            && (1..=65_536).contains(&self.cores)
            && self.version.len() <= VERSION_BYTES_MAX
            && self.cpu.vendor.len() <= VENDOR_BYTES_MAX
    }
}
