//! The table of ageing loads with the nodes' names, and its messages.
//!
//! From: `sense/src/sample.rs` (this node's own data). Next: `balance/src/decide.rs` (which processes should move).

use crate::answers::Answers;
use crate::life::{Build, Facts, Life, Shared, VENDOR_BYTES_MAX, VERSION_BYTES_MAX, crop};
use crate::message::{Item, Message, Rest, Told};
use crate::names::Names;
use crate::packet::{Packet, Word};
use crate::table::{AGE_MS_MAX, GONE_MAX, Heard, NODES_MAX, Row, Table};
use crate::{Dice, Entry, ITEMS_MAX, Known, Tick};
use armento_model::NodeName;
use std::collections::HashMap;
use std::sync::Arc;

/// Limit of numbered names: of nodes that are known, of forgotten ones, and of as many again that were rejected since
/// the last [`Vector::tick`].
const NAMES_MAX: usize = NODES_MAX + 2 * GONE_MAX;

/// This node's data about all nodes, including itself.
#[derive(Clone, Debug)]
pub struct Vector {
    me: NodeName,
    names: Names,
    table: Table,
    /// By digest: equal builds are stored once.
    builds: HashMap<u64, Arc<Shared>>,
    answers: Answers,
}

impl Vector {
    /// `boot` must be greater than at any earlier start of this node.
    pub fn new(me: NodeName, boot: u64) -> Vector {
        let mut names = Names::default();
        let number = names.give(&me, NAMES_MAX).unwrap_or(0);
        Vector {
            me,
            names,
            table: Table::new(number, boot, 0),
            builds: HashMap::new(),
            answers: Answers::default(),
        }
    }

    pub fn me(&self) -> &NodeName {
        &self.me
    }

    /// Sets this node's report about itself. Name, incarnation and sequence are set here.
    pub fn set_own(&mut self, mut entry: Entry, now: Tick) {
        crop(&mut entry.version, VERSION_BYTES_MAX);
        crop(&mut entry.cpu.vendor, VENDOR_BYTES_MAX);
        self.table.set_own(entry, now);
    }

    /// Makes this node's update urgent: call [`Vector::send`] at once, and more peers receive it.
    pub fn urge(&mut self) {
        self.table.urge();
    }

    /// Once a period: drops entries that are too old.
    pub fn tick(&mut self, now: Tick) {
        self.table.tick(now);
        let (table, me) = (&self.table, self.table.me());
        self.names
            .keep(|number| number == me || table.holds(number));
        self.builds.retain(|_, build| Arc::strong_count(build) > 1);
    }

    /// Once a period: the message, and its recipients. `peers` are the living members without this node.
    pub fn send(
        &mut self,
        now: Tick,
        dice: &mut Dice,
        peers: &[NodeName],
    ) -> Vec<(NodeName, Message)> {
        let candidates = self.answers.candidates(dice, peers);
        let places = self.table.peers_to_tell(dice, candidates.len());
        let each = places.into_iter().map(|place| &peers[candidates[place]]);
        each.map(|peer| {
            self.answers.sent_to(peer);
            (peer.clone(), self.message_for(peer, now))
        })
        .collect()
    }

    /// The freshest entries for `peer`. Also the answer to a node that has just joined.
    pub fn message_for(&mut self, peer: &NodeName, now: Tick) -> Message {
        let packet = self.packet_for(peer, now);
        self.named(packet)
    }

    pub(crate) fn packet_for(&mut self, peer: &NodeName, now: Tick) -> Packet {
        let to = self.names.number(peer).unwrap_or(u32::MAX);
        let names = &self.names;
        let bytes = |number| names.name(number).map_or(0, |name| name.as_str().len());
        self.table.packet(to, now, bytes)
    }

    pub(crate) fn named(&self, packet: Packet) -> Message {
        let told = |place: usize| packet.told.contains(&place);
        let items = packet.words.iter().enumerate();
        let item = |(place, word): (usize, &Word)| Item {
            // Rows have names; a row without one was never added.
            node: self.names.name(word.id).unwrap_or(&self.me).clone(),
            boot: word.life.boot,
            seq: word.seq.into(),
            age_ms: word.age_ms,
            load: word.load,
            runnable: word.runnable.into(),
            guests: word.guests.into(),
            mem_free_kib: word.mem_free_kib.into(),
            facts_rev: word.life.rev,
            facts: word
                .life
                .facts
                .as_ref()
                .filter(|_| told(place))
                .map(Told::of),
        };
        Message {
            from: self.me.clone(),
            items: items.map(item).collect(),
            rest: Rest {
                builds: packet.builds.iter().map(|b| b.build.clone()).collect(),
                about: packet.about,
            },
            shut: packet.shut,
            drained: packet.drained,
        }
    }

    /// Keeps the newer of each entry.
    pub fn receive(&mut self, message: Message, now: Tick) -> Heard {
        let mut heard = Heard::default();
        let Message {
            from,
            items,
            rest,
            shut,
            drained,
        } = message;
        self.answers.heard_from(&from);
        let marks = |places: Vec<u32>| {
            let mut marked = vec![false; items.len()];
            for place in places {
                if let Some(mark) = marked.get_mut(place as usize) {
                    *mark = true;
                }
            }
            marked
        };
        let (shut, drained) = (marks(shut), marks(drained));
        let mut builds: Vec<Option<Arc<Shared>>> = vec![None; rest.builds.len()];
        for (n, mut item) in items.into_iter().enumerate() {
            if item.node == self.me {
                heard.double |= item.boot > self.table.boot();
                continue;
            }
            let first_hand = item.node == from;
            let facts = match self.facts(&mut item, n, &rest, &mut builds) {
                Ok(facts) => facts,
                Err(Invalid) => {
                    heard.dropped += 1;
                    continue;
                }
            };
            let marks = (shut[n], drained[n]);
            if n < ITEMS_MAX && self.take(item, (facts, marks), first_hand, now) {
                heard.newer += 1;
            } else {
                heard.dropped += 1;
            }
        }
        heard
    }

    /// The facts that the message contains for item `n`.
    fn facts(
        &mut self,
        item: &mut Item,
        n: usize,
        rest: &Rest,
        builds: &mut [Option<Arc<Shared>>],
    ) -> Result<Option<Facts>, Invalid> {
        let about = rest.about.get(n);
        let place = about.map_or(0, |about| about.build as usize);
        let (about, build) = match (about, place.checked_sub(1)) {
            (Some(about), Some(i)) => {
                let build = rest.builds.get(i).ok_or(Invalid)?;
                let shared = builds[i].get_or_insert_with(|| kept(&mut self.builds, build.clone()));
                (about.clone(), shared.clone())
            }
            _ => {
                let Some(told) = item.facts.take() else {
                    return Ok(None);
                };
                let (about, build) = told.split();
                (about, kept(&mut self.builds, build))
            }
        };
        if about.speed == 0 || !build.build.is_valid() {
            return Err(Invalid);
        }
        Ok(Some(Facts::new(about.mem_total_kib, about.speed, build)))
    }

    /// True if `item` was newer.
    fn take(
        &mut self,
        item: Item,
        (facts, (shut, drained)): (Option<Facts>, (bool, bool)),
        first_hand: bool,
        now: Tick,
    ) -> bool {
        let Ok(seq) = u32::try_from(item.seq) else {
            return false;
        };
        if u64::from(item.age_ms) > AGE_MS_MAX {
            return false;
        }
        let number = match self.names.number(&item.node) {
            None if self.table.is_full() => None,
            _ => self.names.give(&item.node, NAMES_MAX),
        };
        let Some(id) = number else { return false };
        let word = Word {
            id,
            age_ms: item.age_ms,
            seq,
            load: item.load,
            mem_free_kib: u32::try_from(item.mem_free_kib).unwrap_or(u32::MAX),
            runnable: u16::try_from(item.runnable).unwrap_or(u16::MAX),
            guests: u16::try_from(item.guests).unwrap_or(u16::MAX),
            shut,
            drained,
            life: self.life(id, item.boot, item.facts_rev, facts),
        };
        self.table.take(word, first_hand, now)
    }

    /// The stored one, if it is equal.
    fn life(&self, id: u32, boot: u64, rev: u32, facts: Option<Facts>) -> Arc<Life> {
        let same = |row: &&Row| row.life.boot == boot && row.life.rev == rev;
        let news = |row: &&Row| row.life.facts.is_none() && facts.is_some();
        match self.table.row(id).filter(same).filter(|row| !news(row)) {
            Some(row) => row.life.clone(),
            None => Life::new(boot, rev, facts),
        }
    }

    /// The node left or was declared dead: drops it, and ignores older data about it. It is accepted again when it
    /// sends itself, or with a later incarnation.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(number) = self.names.number(node) {
            self.table.forget(number);
        }
    }

    /// It is known to be alive after all, as after a network split: data from others about it is accepted again. In a
    /// large farm it would take long until it sends to this node itself.
    pub fn welcome(&mut self, node: &NodeName) {
        if let Some(number) = self.names.number(node) {
            self.table.welcome(number);
        }
    }

    /// All nodes with known facts, this one first, the others by name.
    pub fn view(&self, now: Tick) -> Vec<Known> {
        let mine = self.get(&self.me, now);
        let others = self.names.all().filter(|(name, _)| **name != self.me);
        let others = others.filter_map(|(name, id)| self.table.known(id, name, now));
        mine.into_iter()
            .chain(others.filter(|known| known.age_ms <= AGE_MS_MAX))
            .collect()
    }

    /// The view of a decision in a large farm: this node, the freshest others up to `max`, and `also`.
    pub fn window<'a>(
        &self,
        max: usize,
        also: impl Iterator<Item = &'a NodeName>,
        now: Tick,
    ) -> Vec<Known> {
        let also = also.filter_map(|name| self.names.number(name));
        let window = self.table.window(max, also, now);
        let named = window.into_iter().filter_map(|id| {
            let known = self.table.known(id, self.names.name(id)?, now)?;
            (id == self.table.me() || known.age_ms <= AGE_MS_MAX).then_some(known)
        });
        let mut window: Vec<Known> = named.collect();
        window.sort_by(|a, b| {
            let order = |k: &Known| k.entry.node != self.me;
            let by_name = a.entry.node.cmp(&b.entry.node);
            order(a).cmp(&order(b)).then(by_name)
        });
        window
    }

    /// One node of the view.
    pub fn get(&self, node: &NodeName, now: Tick) -> Option<Known> {
        self.table.known(self.names.number(node)?, node, now)
    }
}

/// Marks data that no correct node sends.
struct Invalid;

/// The stored build equal to `build`.
fn kept(builds: &mut HashMap<u64, Arc<Shared>>, build: Build) -> Arc<Shared> {
    let shared = build.shared();
    let known = builds
        .entry(shared.digest)
        .or_insert_with(|| shared.clone());
    if known.build == shared.build {
        known.clone()
    } else {
        shared
    }
}

#[cfg(test)]
mod tests;
