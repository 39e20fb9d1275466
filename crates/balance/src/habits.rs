//! What programs of one name do with files: known of those that were away, used for those that never were.

use crate::file_use::Traffic;
use armento_gossip::Tick;
use std::collections::BTreeMap;

/// Names that are remembered; the one that was learnt longest ago gives way.
const NAMES_MAX: usize = 1024;
/// A longer name is cut: users choose them.
const NAME_MAX: usize = 64;
/// What was learnt longer ago is forgotten, so that it is measured again.
const HOLDS_MS: u64 = 600_000;
/// Share of the old value that is kept when more is learnt, eighths.
const KEEP_EIGHTHS: u64 = 7;

#[derive(Clone, Copy, Debug)]
struct Habit {
    traffic: Traffic,
    at: Tick,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Habits(BTreeMap<String, Habit>);

impl Habits {
    /// A program of that name does this.
    pub fn learn(&mut self, name: &str, seen: Traffic, now: Tick) {
        let name = cut(name);
        if name.is_empty() {
            return;
        }
        if let Some(habit) = self.0.get_mut(name) {
            let mix = |old: u64, new: u64| {
                let new = new.min(u64::MAX >> 4);
                (old * KEEP_EIGHTHS + new * (8 - KEEP_EIGHTHS)) / 8
            };
            let old = habit.traffic;
            habit.traffic = Traffic {
                waits: mix(old.waits, seen.waits),
                posts: mix(old.posts, seen.posts),
                bytes: mix(old.bytes, seen.bytes),
            };
            habit.at = now;
            return;
        }
        if self.0.len() >= NAMES_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, habit)| habit.at)
        {
            let oldest = oldest.0.clone();
            self.0.remove(&oldest);
        }
        let least = |n: u64| n.min(u64::MAX >> 4);
        let traffic = Traffic {
            waits: least(seen.waits),
            posts: least(seen.posts),
            bytes: least(seen.bytes),
        };
        let habit = Habit { traffic, at: now };
        self.0.insert(name.to_owned(), habit);
    }

    /// Nothing if it is unknown.
    pub fn of(&self, name: &str, now: Tick) -> Traffic {
        let habit = self.0.get(cut(name));
        let fresh = habit.filter(|habit| now.since(habit.at) <= HOLDS_MS);
        fresh.map_or(Traffic::default(), |habit| habit.traffic)
    }
}

fn cut(name: &str) -> &str {
    let end = (0..=NAME_MAX.min(name.len()))
        .rev()
        .find(|&i| name.is_char_boundary(i));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(waits: u64) -> Traffic {
        Traffic {
            waits,
            ..Traffic::default()
        }
    }

    #[test]
    fn names_are_bounded_and_forgotten() {
        let mut habits = Habits::default();
        assert!(habits.of("cp", Tick(0)).is_none());
        habits.learn("cp", waits(800), Tick(0));
        habits.learn("cp", waits(0), Tick(1));
        assert_eq!(habits.of("cp", Tick(1)), waits(700), "by an eighth");
        assert!(habits.of("cp", Tick(HOLDS_MS + 2)).is_none(), "too old");
        for n in 0..2 * NAMES_MAX {
            habits.learn(&format!("job{n}"), waits(1), Tick(10 + n as u64));
        }
        assert_eq!(habits.0.len(), NAMES_MAX);
        assert!(habits.of("cp", Tick(20)).is_none(), "gave way");
        habits.learn("", waits(1), Tick(0));
        habits.learn(&"é".repeat(1000), waits(u64::MAX), Tick(5000));
        habits.learn(&"é".repeat(1000), waits(u64::MAX), Tick(5000));
        assert!(
            habits
                .0
                .keys()
                .all(|name| (1..=NAME_MAX).contains(&name.len()))
        );
    }
}
