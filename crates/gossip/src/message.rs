//! Messages: the fast-changing part of many entries, and their common facts once.
//!
//! ```text
//! from | items: one a node, freshest first | builds: each once | about: one an item, naming its build | shut: places of items
//! | drained: places of items
//! ```
//! Versions before this one end after `items`, and read no further: they receive the facts of a node only in items that
//! contain them, so each message contains a few in turn. If the rest is missing or not understood, only the facts
//! within items are used.

use crate::life::{Build, Facts};
use crate::{CpuSet, Wire};
use armento_model::NodeName;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Most entries in one message: what fits [`MESSAGE_BYTES_MAX`] with short names. The full vector up to this many
/// nodes, the freshest window beyond. A version before this one reads the first thousand.
pub const ITEMS_MAX: usize = 2500;

/// Limit of a message in any serialisation that is at most as large as postcard's: it fits one datagram and one control
/// line.
pub const MESSAGE_BYTES_MAX: usize = 60_000;

/// A node's data for another node. Decode it with a serde format without field names, then pass it to
/// [`crate::Vector::receive`], which trusts nothing in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    pub(crate) from: NodeName,
    pub(crate) items: Vec<Item>,
    pub(crate) rest: Rest,
    /// Indexes of items for nodes that accept no guests for now.
    pub(crate) shut: Vec<u32>,
    /// Indexes of items for nodes that an administrator drains. Versions before this one end after `shut`.
    pub(crate) drained: Vec<u32>,
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
    /// Which facts of that incarnation apply to this item.
    pub facts_rev: u32,
    pub facts: Option<Told>,
}

/// Facts within an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub mem_total_kib: u64,
    pub speed: u32,
    pub kind: u32,
    pub cores: u32,
    pub cpu: CpuSet,
    pub wire: Wire,
    pub version: String,
}

/// Facts of all items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rest {
    pub builds: Vec<Build>,
    pub about: Vec<About>,
}

/// Facts of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Its index in `builds`, from 1 on; 0: the facts are not known.
    pub build: u32,
    pub speed: u32,
    pub mem_total_kib: u64,
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

impl Told {
    pub fn of(facts: &Facts) -> Told {
        let build = facts.build.build.clone();
        Told {
            mem_total_kib: facts.mem_total_kib,
            speed: facts.speed,
            kind: build.kind,
            cores: build.cores,
            cpu: build.cpu,
            wire: build.wire,
            version: build.version,
        }
    }

    pub fn split(self) -> (About, Build) {
        let about = About {
            build: 1,
            speed: self.speed,
            mem_total_kib: self.mem_total_kib,
        };
        let build = Build {
            kind: self.kind,
            cores: self.cores,
            cpu: self.cpu,
            wire: self.wire,
            version: self.version,
            // Older versions do not send the share.
            share_permille: 1000,
        };
        (about, build)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Message, D::Error> {
        d.deserialize_tuple(5, InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a load vector's message")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Message, A::Error> {
        use serde::de::Error;
        let missing = |n| A::Error::invalid_length(n, &InOrder);
        let from = seq.next_element()?.ok_or_else(|| missing(0))?;
        let items = seq.next_element()?.ok_or_else(|| missing(1))?;
        // The version before this one ends here. If the rest is not understood, it counts as missing.
        let rest: Option<Rest> = seq.next_element().ok().flatten();
        let shut: Option<Vec<u32>> = rest
            .as_ref()
            .and_then(|_| seq.next_element().ok().flatten());
        let drained: Option<Vec<u32>> = shut
            .as_ref()
            .and_then(|_| seq.next_element().ok().flatten());
        Ok(Message {
            from,
            items,
            rest: rest.unwrap_or_default(),
            shut: shut.unwrap_or_default(),
            drained: drained.unwrap_or_default(),
        })
    }
}
