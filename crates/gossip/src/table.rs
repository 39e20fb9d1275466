//! The bounded table of ageing loads, with nodes as numbers.
//!
//! A farm of ten thousand has ten thousand such tables, and a simulator stores them all: a row is 28 bytes.

mod window;

use crate::life::{Build, Facts, Life};
use crate::packet::{Packet, Word};
use crate::{Dice, Entry, Known, Tick};
use armento_model::NodeName;
use std::sync::Arc;

/// Limit of nodes in a vector: the simulator's largest farm. More are not added.
pub(crate) const NODES_MAX: usize = 10_000;
/// Limit of forgotten nodes, with old entries that may still be on their way.
pub(crate) const GONE_MAX: usize = 1024;
/// Number of peers to which a node sends in one period. One suffices: an update then doubles its holders each period.
const FANOUT: usize = 1;
/// Number of peers for an urgent update: three periods' doublings in one step.
const FANOUT_URGENT: usize = 8;
/// An entry older than this is useless and is neither shown nor passed on. 60 periods of a second: three times the mean
/// age in the largest farm.
pub(crate) const AGE_MS_MAX: u64 = 60_000;
/// Clock values in a table begin here, so that the oldest possible value is above 0.
const CLOCK_BEGIN: u32 = 1 << 16;
/// After this time (24 days) a table rebases its clock values, before they overflow.
const CLOCK_MS_MAX: u64 = 1 << 31;
/// Result of [`Table::receive`] or [`crate::Vector::receive`] for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Entries that were newer.
    pub newer: usize,
    /// Entries dropped: older than the stored ones, of a dead incarnation, too old, or invalid.
    pub dropped: usize,
    /// Another node uses this node's name: a later incarnation than this one sends.
    pub double: bool,
}

/// A node's newest entry, without its age.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub life: Arc<Life>,
    pub seq: u32,
    pub load: u32,
    /// Capped at 4 TiB.
    pub mem_free_kib: u32,
    pub runnable: u16,
    pub guests: u16,
    pub shut: bool,
    pub drained: bool,
}

/// This node's data about all nodes, including itself. The simulator's vector: the caller assigns numbers to nodes.
#[derive(Clone, Debug)]
pub struct Table {
    me: u32,
    boot: u64,
    /// The time at which [`CLOCK_BEGIN`] lies.
    begin: Tick,
    /// Time of each node's last report, by our clock; 0: none known. Separate from the rows: it is scanned for every
    /// message.
    spoken: Vec<u32>,
    rows: Vec<Option<Row>>,
    known: usize,
    /// Forgotten nodes with the last incarnation known, oldest first.
    gone: Vec<(u32, u64)>,
    turn: u32,
    urgent: bool,
}

impl Table {
    /// `boot` must be greater than at any earlier start of this node. `room_for`: nodes of the farm, if known.
    pub fn new(me: u32, boot: u64, room_for: usize) -> Table {
        Table {
            me,
            boot,
            begin: Tick(0),
            spoken: Vec::with_capacity(room_for),
            rows: Vec::with_capacity(room_for),
            known: 0,
            gone: Vec::new(),
            turn: 0,
            urgent: false,
        }
    }

    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    pub(crate) fn boot(&self) -> u64 {
        self.boot
    }

    pub fn is_full(&self) -> bool {
        self.known >= NODES_MAX
    }

    // --- this node's own entry ---

    /// Sets this node's report about itself. Name, incarnation and sequence are set here.
    pub fn set_own(&mut self, entry: Entry, now: Tick) {
        let before = self.row(self.me);
        let seq = before.map_or(1, |row| row.seq.saturating_add(1));
        let same = |row: &&Row| row.life.facts.as_ref().is_some_and(|f| f.are_of(&entry));
        let life = match before.filter(same) {
            Some(row) => row.life.clone(),
            None => {
                let rev = before.map_or(1, |row| row.life.rev + 1);
                let build = Build::of(&entry).shared();
                let facts = Facts::new(entry.mem_total_kib, entry.speed, build);
                Life::new(self.boot, rev, Some(facts))
            }
        };
        let row = Row {
            life,
            seq,
            load: entry.load,
            mem_free_kib: u32::try_from(entry.mem_free_kib).unwrap_or(u32::MAX),
            runnable: u16::try_from(entry.runnable).unwrap_or(u16::MAX),
            guests: u16::try_from(entry.guests).unwrap_or(u16::MAX),
            shut: entry.shut,
            drained: entry.drained,
        };
        self.put(self.me, row, 0, now);
    }

    /// Makes this node's update urgent: the next [`Table::whom`] chooses more peers.
    pub fn urge(&mut self) {
        self.urgent = true;
    }

    /// Once a period, or at once after [`Table::urge`]: indexes, in a list of so many living peers, of those to send
    /// to.
    pub fn peers_to_tell(&mut self, dice: &mut Dice, peers: usize) -> Vec<usize> {
        let urgent = std::mem::take(&mut self.urgent);
        dice.places(peers, if urgent { FANOUT_URGENT } else { FANOUT })
    }

    // --- time ---

    /// Once a period: drops entries that are too old.
    pub fn tick(&mut self, now: Tick) {
        self.wind(now);
        let oldest = u64::from(self.clock(now)).saturating_sub(AGE_MS_MAX);
        for id in 0..self.spoken.len() {
            let spoken = u64::from(self.spoken[id]);
            if spoken != 0 && spoken < oldest && id != self.me as usize {
                self.drop_row(id);
            }
        }
    }

    fn clock(&self, now: Tick) -> u32 {
        let past = now.since(self.begin) + u64::from(CLOCK_BEGIN);
        u32::try_from(past).unwrap_or(u32::MAX)
    }

    /// Called before a moment is stored: makes sure that it fits.
    fn wind(&mut self, now: Tick) {
        let past = now.since(self.begin);
        if past <= CLOCK_MS_MAX {
            return;
        }
        let by = u32::try_from(past).unwrap_or(u32::MAX);
        self.begin = now;
        for spoken in self.spoken.iter_mut().filter(|s| **s != 0) {
            *spoken = spoken.saturating_sub(by).max(1);
        }
    }

    /// Time since its last report, as known here, milliseconds.
    pub fn age_ms(&self, id: u32, now: Tick) -> Option<u64> {
        let spoken = self.spoken.get(id as usize).copied().unwrap_or(0);
        (spoken != 0).then(|| u64::from(self.clock(now).saturating_sub(spoken)))
    }

    // --- received data ---

    /// Keeps the newer of each entry.
    pub fn receive(&mut self, packet: Packet, now: Tick) -> Heard {
        let mut heard = Heard::default();
        let from = packet.from;
        for word in packet.words {
            let first_hand = word.id == from;
            if self.take(word, first_hand, now) {
                heard.newer += 1;
            } else {
                heard.dropped += 1;
            }
        }
        heard
    }

    /// True if `word` was newer.
    pub(crate) fn take(&mut self, word: Word, first_hand: bool, now: Tick) -> bool {
        if u64::from(word.age_ms) > AGE_MS_MAX || word.id == self.me {
            return false;
        }
        let Some(row) = self.rows.get_mut(word.id as usize).and_then(Option::as_mut) else {
            return self.take_unknown(word, first_hand, now);
        };
        if !Arc::ptr_eq(&row.life, &word.life) {
            if word.life.boot < row.life.boot {
                return false;
            }
            if word.life.boot > row.life.boot {
                self.put_word(word, now);
                return true;
            }
            let told = word.life.facts.is_some();
            if told && (row.life.facts.is_none() || word.life.rev > row.life.rev) {
                row.life = word.life;
            }
        }
        if word.seq <= row.seq {
            return false;
        }
        (row.seq, row.load, row.mem_free_kib) = (word.seq, word.load, word.mem_free_kib);
        (row.runnable, row.guests) = (word.runnable, word.guests);
        (row.shut, row.drained) = (word.shut, word.drained);
        let (id, age) = (word.id as usize, word.age_ms);
        self.wind(now);
        self.spoken[id] = self.clock(now) - age;
        true
    }

    /// Handles a node about which nothing is known.
    fn take_unknown(&mut self, word: Word, first_hand: bool, now: Tick) -> bool {
        if let Some(i) = self.gone.iter().position(|(id, _)| *id == word.id) {
            // Data from others about a node that left is not a sign of life.
            let boot = self.gone[i].1;
            if word.life.boot < boot || (word.life.boot == boot && !first_hand) {
                return false;
            }
            self.gone.remove(i);
        }
        if self.is_full() {
            return false;
        }
        self.put_word(word, now);
        true
    }

    fn put_word(&mut self, word: Word, now: Tick) {
        let (id, age_ms) = (word.id, word.age_ms);
        self.put(id, Row::from(word), age_ms, now);
    }

    fn put(&mut self, id: u32, row: Row, age_ms: u32, now: Tick) {
        self.wind(now);
        let at = id as usize;
        if at >= self.rows.len() {
            self.rows.resize(at + 1, None);
            self.spoken.resize(at + 1, 0);
        }
        self.known += usize::from(self.rows[at].is_none());
        self.rows[at] = Some(row);
        self.spoken[at] = self.clock(now) - age_ms;
    }

    fn drop_row(&mut self, at: usize) -> Option<Row> {
        let row = self.rows.get_mut(at)?.take()?;
        self.spoken[at] = 0;
        self.known -= 1;
        Some(row)
    }

    /// The node left or was declared dead: drops it, and ignores older data about it. It is accepted again when it
    /// sends itself, or with a later incarnation.
    pub fn forget(&mut self, id: u32) {
        if let Some(row) = self.drop_row(id as usize) {
            self.gone.retain(|(gone, _)| *gone != id);
            if self.gone.len() >= GONE_MAX {
                self.gone.remove(0);
            }
            self.gone.push((id, row.life.boot));
        }
    }

    /// It is known to be alive after all: data from others about it is accepted again.
    pub fn welcome(&mut self, id: u32) {
        self.gone.retain(|(gone, _)| *gone != id);
    }

    /// Its entry under `name`, once its facts are known.
    pub fn known(&self, id: u32, name: &NodeName, now: Tick) -> Option<Known> {
        let row = self.row(id)?;
        let facts = row.life.facts.as_ref()?;
        let build = &facts.build.build;
        let entry = Entry {
            node: name.clone(),
            boot: row.life.boot,
            seq: row.seq.into(),
            load: row.load,
            runnable: row.runnable.into(),
            guests: row.guests.into(),
            shut: row.shut,
            drained: row.drained,
            mem_free_kib: row.mem_free_kib.into(),
            mem_total_kib: facts.mem_total_kib,
            speed: facts.speed,
            kind: build.kind,
            cores: build.cores,
            share_permille: build.share_permille,
            cpu: build.cpu.clone(),
            wire: build.wire,
            version: build.version.clone(),
        };
        let age_ms = self.age_ms(id, now)?;
        Some(Known { entry, age_ms })
    }

    pub(crate) fn row(&self, id: u32) -> Option<&Row> {
        self.rows.get(id as usize)?.as_ref()
    }

    /// Whether its number must remain assigned to it.
    pub(crate) fn holds(&self, id: u32) -> bool {
        self.row(id).is_some() || self.gone.iter().any(|(gone, _)| *gone == id)
    }
}

impl Row {
    fn word(&self, id: u32, age_ms: u32) -> Word {
        Word {
            id,
            age_ms,
            seq: self.seq,
            load: self.load,
            mem_free_kib: self.mem_free_kib,
            runnable: self.runnable,
            guests: self.guests,
            shut: self.shut,
            drained: self.drained,
            life: self.life.clone(),
        }
    }
}

impl From<Word> for Row {
    fn from(word: Word) -> Row {
        Row {
            life: word.life,
            seq: word.seq,
            load: word.load,
            mem_free_kib: word.mem_free_kib,
            runnable: word.runnable,
            guests: word.guests,
            shut: word.shut,
            drained: word.drained,
        }
    }
}
