//! A message with numbers for its nodes instead of names.

use crate::life::{Facts, Life, Shared, text, varint};
use crate::message::{About, ITEMS_MAX, MESSAGE_BYTES_MAX};
use std::collections::HashMap;
use std::sync::Arc;

/// One row of a message.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub id: u32,
    pub age_ms: u32,
    pub seq: u32,
    pub load: u32,
    pub mem_free_kib: u32,
    pub runnable: u16,
    pub guests: u16,
    pub shut: bool,
    pub drained: bool,
    pub life: Arc<Life>,
}

/// Rows for another node, freshest first: the form that the simulator sends, with its encoded size.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) from: u32,
    pub(crate) words: Vec<Word>,
    /// Numbered as in [`About::build`].
    pub(crate) builds: Vec<Arc<Shared>>,
    pub(crate) about: Vec<About>,
    /// Indexes of words with full facts, for versions that read no further.
    pub(crate) told: Vec<usize>,
    /// Indexes of words for nodes that accept no guests.
    pub(crate) shut: Vec<u32>,
    /// … and for nodes that are drained.
    pub(crate) drained: Vec<u32>,
    bytes: usize,
}

impl Packet {
    pub fn from(&self) -> u32 {
        self.from
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Exactly the size of its message in postcard's encoding.
    pub fn bytes(&self) -> usize {
        let n = varint(self.words.len() as u64);
        let places = [&self.shut, &self.drained];
        let places: usize = places.iter().map(|all| varint(all.len() as u64)).sum();
        self.bytes + 2 * n + varint(self.builds.len() as u64) + places
    }
}

/// A packet being filled up to its limit.
pub(crate) struct Filling {
    packet: Packet,
    by_digest: HashMap<u64, u32>,
    /// Digest and index of the last build.
    last: (u64, u32),
}

impl Filling {
    /// `name_bytes`: of the sender's name.
    pub fn new(from: u32, name_bytes: usize, room_for: usize) -> Filling {
        let room_for = room_for.min(ITEMS_MAX);
        Filling {
            packet: Packet {
                from,
                words: Vec::with_capacity(room_for),
                builds: Vec::new(),
                about: Vec::with_capacity(room_for),
                told: Vec::new(),
                shut: Vec::new(),
                drained: Vec::new(),
                bytes: text(name_bytes),
            },
            by_digest: HashMap::new(),
            last: (0, 0),
        }
    }

    /// False if it does not fit any more. `told`: its facts are written in full.
    pub fn add(&mut self, word: Word, name_bytes: usize, told: bool) -> bool {
        let facts = word.life.facts.as_ref();
        let (about, new) = facts.map_or((About::default(), None), |facts| self.about(facts));
        let digest = facts.map_or(0, |facts| facts.digest);
        let in_full = facts.filter(|_| told).map(Facts::bytes);
        let place = self.packet.words.len();
        let shut = word.shut.then_some(place as u32);
        let drained = word.drained.then_some(place as u32);
        let places = shut.into_iter().chain(drained);
        let bytes = word.bytes(name_bytes)
            + places.map(|place| varint(place.into())).sum::<usize>()
            + varint(about.build.into())
            + in_full.unwrap_or(0)
            + new.as_ref().map_or(0, |build| build.bytes);
        let packet = &mut self.packet;
        // Five counts of at most three bytes each.
        if place >= ITEMS_MAX || packet.bytes + bytes + 15 > MESSAGE_BYTES_MAX {
            return false;
        }
        packet.bytes += bytes;
        if in_full.is_some() {
            packet.told.push(place);
        }
        packet.shut.extend(shut);
        packet.drained.extend(drained);
        if let Some(build) = new {
            self.by_digest.insert(digest, about.build);
            packet.builds.push(build);
        }
        self.last = (digest, about.build);
        packet.about.push(about);
        packet.words.push(word);
        true
    }

    pub fn done(self) -> Packet {
        self.packet
    }

    /// And its build, if no earlier word had it. A node that sends two builds with one digest gains nothing: a member's
    /// data about others is trusted anyway.
    fn about(&self, facts: &Facts) -> (About, Option<Arc<Shared>>) {
        let known = if self.last.0 == facts.digest {
            Some(self.last.1).filter(|place| *place != 0)
        } else {
            self.by_digest.get(&facts.digest).copied()
        };
        let next = self.packet.builds.len() as u32 + 1;
        let about = About {
            build: known.unwrap_or(next),
            speed: facts.speed,
            mem_total_kib: facts.mem_total_kib,
        };
        (about, known.is_none().then(|| facts.build.clone()))
    }
}

impl Word {
    /// Encoded size of its item without facts, and of its facts without the number of its build.
    fn bytes(&self, name_bytes: usize) -> usize {
        let numbers = [
            self.seq,
            self.age_ms,
            self.load,
            self.runnable.into(),
            self.guests.into(),
            self.mem_free_kib,
        ];
        let numbers: usize = numbers.iter().map(|&n| varint(n.into())).sum();
        text(name_bytes) + numbers + 1 + self.life.bytes
    }
}

#[cfg(test)]
mod tests;
