//! The bounded table of ageing loads.
//!
//! From: `sense/src/sample.rs` (what this node says of itself).
//! Next: `balance/src/decide.rs` (who should move).

use crate::message::{Facts, HEAD_BYTES, Item, VENDOR_BYTES_MAX, VERSION_BYTES_MAX};
use crate::{Dice, Entry, ITEMS_MAX, Known, MESSAGE_BYTES_MAX, Message, Tick};
use armento_model::NodeName;
use std::collections::BTreeMap;

/// Nodes a vector holds; the simulator's largest farm (`design.md` §5). More are not learned.
const NODES_MAX: usize = 10_000;
/// Nodes that were forgotten and whose old entries may still be on their way.
const GONE_MAX: usize = 1024;
/// Whom a node sends to in one period. One suffices: news then doubles its holders each period.
const FANOUT: usize = 1;
/// An entry older than this says nothing any more and is neither shown nor passed on.
/// 60 periods of a second: ten times the mean age in the largest farm.
const AGE_MS_MAX: u64 = 60_000;
/// New facts ride along this many times from each node that learns them, twice the number of
/// periods (log2 n) in which news reaches a farm of [`NODES_MAX`].
const FACTS_RIDES: u8 = 28;
/// … and beyond that, this many old ones a message in turn, for whoever missed them.
const FACTS_TURN: usize = 2;

/// What [`Vector::receive`] did with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Entries that were news.
    pub newer: usize,
    /// Entries dropped: older than ours, of a dead incarnation, too old, or not sane.
    pub dropped: usize,
    /// Somebody else uses this node's name: a later incarnation than ours speaks.
    pub double: bool,
}

#[derive(Clone, Debug)]
struct Row {
    item: Item,
    /// When `item` arrived here with its `age_ms`.
    at: Tick,
    facts: Option<(u32, Facts)>,
    rides: u8,
}

impl Row {
    fn age_ms(&self, now: Tick) -> u64 {
        u64::from(self.item.age_ms) + now.since(self.at)
    }
}

/// What this node knows of all nodes, itself included.
#[derive(Clone, Debug)]
pub struct Vector {
    me: NodeName,
    boot: u64,
    rows: BTreeMap<NodeName, Row>,
    /// Forgotten nodes with the last incarnation known, oldest first.
    gone: Vec<(NodeName, u64)>,
    /// Peers that were sent all facts, with their incarnation as we knew it.
    greeted: BTreeMap<NodeName, u64>,
    turn: usize,
}

impl Vector {
    /// `boot` must be greater than at any earlier start of this node.
    pub fn new(me: NodeName, boot: u64) -> Vector {
        Vector {
            me,
            boot,
            rows: BTreeMap::new(),
            gone: Vec::new(),
            greeted: BTreeMap::new(),
            turn: 0,
        }
    }

    pub fn me(&self) -> &NodeName {
        &self.me
    }

    /// What this node says of itself from now on. Name, incarnation and sequence are ours to set.
    pub fn set_own(&mut self, mut entry: Entry, now: Tick) {
        crop(&mut entry.version, VERSION_BYTES_MAX);
        crop(&mut entry.cpu.vendor, VENDOR_BYTES_MAX);
        let facts = Facts::of(&entry);
        let before = self.rows.remove(&self.me);
        let seq = before.as_ref().map_or(1, |row| row.item.seq + 1);
        let (rev, rides) = match before.and_then(|row| row.facts.map(|f| (f, row.rides))) {
            Some(((rev, old), rides)) if old == facts => (rev, rides),
            Some(((rev, _), _)) => (rev + 1, 0),
            None => (1, 0),
        };
        let item = Item {
            node: self.me.clone(),
            boot: self.boot,
            seq,
            age_ms: 0,
            load: entry.load,
            runnable: entry.runnable,
            guests: entry.guests,
            mem_free_kib: entry.mem_free_kib,
            facts_rev: rev,
            facts: None,
        };
        self.rows.insert(
            self.me.clone(),
            Row {
                item,
                at: now,
                facts: Some((rev, facts)),
                rides,
            },
        );
    }

    /// Once a period: drops what has become too old to be true.
    pub fn tick(&mut self, now: Tick) {
        let me = &self.me;
        self.rows
            .retain(|node, row| node == me || row.age_ms(now) <= AGE_MS_MAX);
        let rows = &self.rows;
        self.greeted.retain(|node, _| rows.contains_key(node));
    }

    /// Once a period: what to send, and to whom. `peers` are the living members without us.
    pub fn send(
        &mut self,
        now: Tick,
        dice: &mut Dice,
        peers: &[NodeName],
    ) -> Vec<(NodeName, Message)> {
        let chosen: Vec<NodeName> = dice.choose(peers, FANOUT).into_iter().cloned().collect();
        chosen
            .into_iter()
            .map(|peer| {
                let message = self.message_for(&peer, now);
                (peer, message)
            })
            .collect()
    }

    /// The freshest entries for `peer`, all facts with them if it is new to us. Also the answer
    /// to a node that has just joined.
    pub fn message_for(&mut self, peer: &NodeName, now: Tick) -> Message {
        let incarnation = self.rows.get(peer).map_or(0, |row| row.item.boot);
        let greet = self.greeted.insert(peer.clone(), incarnation) != Some(incarnation);
        let mut order: Vec<(u64, NodeName)> = self
            .rows
            .iter()
            .map(|(node, row)| (row.age_ms(now), node.clone()))
            .filter(|(age, node)| *age <= AGE_MS_MAX && node != peer)
            .collect();
        order.sort();
        order.truncate(ITEMS_MAX);

        let mut items = Vec::with_capacity(order.len());
        let mut bytes = HEAD_BYTES;
        for (place, (age, node)) in order.iter().enumerate() {
            let with_facts = greet || self.is_turn(place, order.len());
            let Some(item) = self.item_for(node, *age, with_facts) else {
                continue;
            };
            bytes += item.bytes_max();
            if bytes > MESSAGE_BYTES_MAX {
                break;
            }
            items.push(item);
        }
        self.turn = self.turn.wrapping_add(FACTS_TURN);
        Message {
            from: self.me.clone(),
            items,
        }
    }

    fn is_turn(&self, place: usize, of: usize) -> bool {
        (0..FACTS_TURN).any(|k| self.turn.wrapping_add(k) % of == place)
    }

    fn item_for(&mut self, node: &NodeName, age: u64, with_facts: bool) -> Option<Item> {
        let row = self
            .rows
            .get_mut(node)
            .expect("ordered from the same table");
        let mut item = row.item.clone();
        item.age_ms = u32::try_from(age).unwrap_or(u32::MAX);
        if let Some((rev, facts)) = &row.facts
            && *rev == item.facts_rev
            && (with_facts || row.rides < FACTS_RIDES)
        {
            row.rides = row.rides.saturating_add(1);
            item.facts = Some(facts.clone());
        }
        Some(item)
    }

    /// Keeps the newer of each entry.
    pub fn receive(&mut self, message: Message, now: Tick) -> Heard {
        let mut heard = Heard::default();
        let Message { from, items } = message;
        for (n, item) in items.into_iter().enumerate() {
            if item.node == self.me {
                heard.double |= item.boot > self.boot;
                continue;
            }
            let first_hand = item.node == from;
            if n < ITEMS_MAX && self.take(item, first_hand, now) {
                heard.newer += 1;
            } else {
                heard.dropped += 1;
            }
        }
        heard
    }

    /// True when `item` was news.
    fn take(&mut self, mut item: Item, first_hand: bool, now: Tick) -> bool {
        let facts = item.facts.take();
        if u64::from(item.age_ms) > AGE_MS_MAX || facts.as_ref().is_some_and(|f| !f.sane()) {
            return false;
        }
        if let Some(i) = self.gone.iter().position(|(node, _)| *node == item.node) {
            // What others still say about a node that left is not a sign of life.
            if item.boot < self.gone[i].1 || (item.boot == self.gone[i].1 && !first_hand) {
                return false;
            }
            self.gone.remove(i);
        }
        let facts = facts.map(|f| (item.facts_rev, f));
        let Some(row) = self.rows.get_mut(&item.node) else {
            if self.rows.len() >= NODES_MAX {
                return false;
            }
            self.rows.insert(
                item.node.clone(),
                Row {
                    item,
                    at: now,
                    facts,
                    rides: 0,
                },
            );
            return true;
        };
        if item.boot < row.item.boot {
            return false;
        }
        if item.boot > row.item.boot {
            *row = Row {
                item,
                at: now,
                facts,
                rides: 0,
            };
            return true;
        }
        if let Some((rev, f)) = facts
            && row.facts.as_ref().is_none_or(|(known, _)| rev > *known)
        {
            row.facts = Some((rev, f));
            row.rides = 0;
        }
        let newer = item.seq > row.item.seq;
        if newer {
            row.item = item;
            row.at = now;
        }
        newer
    }

    /// The node left or was declared dead: drop it, and do not believe echoes of it. It is known
    /// again when it speaks itself, or with a later incarnation.
    pub fn forget(&mut self, node: &NodeName) {
        self.greeted.remove(node);
        if let Some(row) = self.rows.remove(node) {
            self.gone.retain(|(name, _)| name != node);
            if self.gone.len() >= GONE_MAX {
                self.gone.remove(0);
            }
            self.gone.push((node.clone(), row.item.boot));
        }
    }

    /// All nodes of which facts are known, this one first, the others by name.
    pub fn view(&self, now: Tick) -> Vec<Known> {
        let mine = self.rows.get(&self.me).into_iter();
        let others = self
            .rows
            .iter()
            .filter(|(node, _)| **node != self.me)
            .map(|(_, row)| row);
        mine.chain(others)
            .filter_map(|row| known(row, now))
            .filter(|k| k.age_ms <= AGE_MS_MAX || k.entry.node == self.me)
            .collect()
    }

    /// One node of the view.
    pub fn get(&self, node: &NodeName, now: Tick) -> Option<Known> {
        self.rows.get(node).and_then(|row| known(row, now))
    }
}

fn known(row: &Row, now: Tick) -> Option<Known> {
    let (_, facts) = row.facts.as_ref()?;
    let (item, facts) = (row.item.clone(), facts.clone());
    let entry = Entry {
        node: item.node,
        boot: item.boot,
        seq: item.seq,
        load: item.load,
        runnable: item.runnable,
        guests: item.guests,
        mem_free_kib: item.mem_free_kib,
        mem_total_kib: facts.mem_total_kib,
        speed: facts.speed,
        kind: facts.kind,
        cores: facts.cores,
        cpu: facts.cpu,
        wire: facts.wire,
        version: facts.version,
    };
    Some(Known {
        entry,
        age_ms: row.age_ms(now),
    })
}

fn crop(text: &mut String, bytes_max: usize) {
    while text.len() > bytes_max {
        text.pop();
    }
}

#[cfg(test)]
mod tests;
