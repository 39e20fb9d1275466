//! The freshest rows of a table: for a message, and for a decision.

use super::{AGE_MS_MAX, Table};
use crate::packet::{Filling, Packet};
use crate::{ITEMS_MAX, Tick};

/// Number of facts written in full in a message, in turn, beside the sender's own: for versions that read no other.
const TOLD_TURN: usize = 1;
/// Rows with ages that differ by less than this count as equally fresh.
const BUCKET_MS: u32 = 256;
const BUCKETS: usize = (AGE_MS_MAX / BUCKET_MS as u64) as usize + 1;

impl Table {
    /// The freshest entries for `to`. Also the answer to a node that has just joined.
    pub fn packet(&mut self, to: u32, now: Tick, name_bytes: impl Fn(u32) -> usize) -> Packet {
        let word = |id: u32| {
            let age_ms = self.age_ms(id, now).unwrap_or(AGE_MS_MAX);
            Some(self.row(id)?.word(id, age_ms as u32))
        };
        let words = self.freshest(to, ITEMS_MAX, now, word);
        let of = words.len();
        let mut filling = Filling::new(self.me, name_bytes(self.me), of);
        for (place, word) in words.into_iter().enumerate() {
            let Some(word) = word else { continue };
            let (name_bytes, told) = (name_bytes(word.id), word.id == self.me);
            if !filling.add(word, name_bytes, told || self.is_turn(place, of)) {
                break;
            }
        }
        self.turn = self.turn.wrapping_add(TOLD_TURN as u32);
        filling.done()
    }

    fn is_turn(&self, place: usize, of: usize) -> bool {
        (0..TOLD_TURN).any(|k| (self.turn as usize).wrapping_add(k) % of == place)
    }

    /// Freshest first, at most `max`. A counting sort in two passes: rows are read in their order in memory.
    fn freshest<T>(
        &self,
        except: u32,
        max: usize,
        now: Tick,
        of: impl Fn(u32) -> Option<T>,
    ) -> Vec<Option<T>> {
        let clock = self.clock(now);
        let bucket = |id: usize| {
            let age = clock.saturating_sub(self.spoken[id]);
            let known = self.spoken[id] != 0 && u64::from(age) <= AGE_MS_MAX;
            (known && id != except as usize).then_some((age / BUCKET_MS) as usize)
        };
        let mut ends = [0usize; BUCKETS];
        let all = 0..self.spoken.len();
        all.filter_map(bucket).for_each(|b| ends[b] += 1);
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let len = sum.min(max);
        let mut order: Vec<Option<T>> = Vec::new();
        order.resize_with(len, || None);
        // The order among equally fresh rows changes each time, so that the end of the window does not always exclude
        // the same ones.
        let turn = self.turn as usize * BUCKET_MS as usize;
        let first = turn.checked_rem(self.spoken.len()).unwrap_or(0);
        for id in (first..self.spoken.len()).chain(0..first) {
            let Some(b) = bucket(id) else { continue };
            if let Some(place) = order.get_mut(ends[b]) {
                *place = of(id as u32);
            }
            ends[b] += 1;
        }
        order
    }

    /// The nodes that a decision examines: this node, the freshest others up to `max`, and `also`. In order of their
    /// numbers.
    pub fn window(&self, max: usize, also: impl Iterator<Item = u32>, now: Tick) -> Vec<u32> {
        let fresh = self.freshest(self.me, max, now, Some);
        let mut window: Vec<u32> = fresh.into_iter().flatten().chain(also).collect();
        window.push(self.me);
        window.sort_unstable();
        window.dedup();
        window
    }
}
