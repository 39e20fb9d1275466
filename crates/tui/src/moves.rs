//! Moves as they happen: differences between two snapshots of the farm.

use crate::procs::{Proc, ProcId};
use armento_model::NodeName;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Moves that are kept: more than any screen has lines.
const HISTORY_MAX: usize = 1000;
/// Moves per minute are counted over the last minute.
const MINUTE: Duration = Duration::from_secs(60);
/// A process not older than the time since the last snapshot, plus this, was started since.
const STARTED_MS: u64 = 1000;

#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Sequence number.
    pub number: u64,
    pub id: ProcId,
    pub command: String,
    pub from: NodeName,
    pub to: NodeName,
    /// How often it moved between the two snapshots.
    pub times: u64,
    /// Whether it was started there.
    pub started: bool,
    /// On the screen's clock.
    pub at: Duration,
}

#[derive(Debug, Default)]
pub struct Moves {
    /// The latest first.
    history: VecDeque<Move>,
    /// Number of moves at each snapshot of the last minute.
    counts: VecDeque<(Duration, u64)>,
    last_look: Option<Duration>,
    next: u64,
}

impl Moves {
    pub fn history(&self) -> &VecDeque<Move> {
        &self.history
    }

    pub fn in_last_minute(&self, now: Duration) -> u64 {
        let recent = self
            .counts
            .iter()
            .filter(|(at, _)| now.saturating_sub(*at) < MINUTE);
        recent.map(|(_, n)| n).sum()
    }

    /// Compares the snapshot `now`, taken at `at`, with the one before.
    pub fn compare(&mut self, before: &[Proc], now: &[Proc], at: Duration) {
        let known: HashMap<&ProcId, &Proc> = before.iter().map(|p| (&p.id, p)).collect();
        let since = self.last_look.replace(at);
        let between = since.map(|s| at.saturating_sub(s).as_millis() as u64);
        let mut count = 0;
        for proc in now {
            let Some(seen) = moved(known.get(&proc.id).copied(), proc, between) else {
                continue;
            };
            count += seen.times;
            self.next += 1;
            self.history.push_front(Move {
                number: self.next,
                at,
                ..seen
            });
        }
        self.history.truncate(HISTORY_MAX);
        self.counts
            .retain(|(then, _)| at.saturating_sub(*then) < MINUTE);
        self.counts.push_back((at, count));
    }
}

/// What happened to `now` since it was `before`. `between`: milliseconds between the snapshots, if there were two.
fn moved(before: Option<&Proc>, now: &Proc, between: Option<u64>) -> Option<Move> {
    let (from, times, started) = match before {
        Some(b) if b.info.place != now.info.place => {
            let times = now.info.moves.saturating_sub(b.info.moves).max(1);
            (&b.info.place, times, false)
        }
        // It moved away and back. A single count is no move: it was ordered to stay where it was.
        Some(b) => {
            let times = now.info.moves.saturating_sub(b.info.moves);
            (&b.info.place, Some(times).filter(|n| *n >= 2)?, false)
        }
        None => {
            let fresh = now.info.age_ms <= between? + STARTED_MS;
            (
                &now.info.home,
                Some(1).filter(|_| fresh && now.is_away())?,
                true,
            )
        }
    };
    Some(Move {
        number: 0,
        id: now.id.clone(),
        command: now.command.clone(),
        from: from.clone(),
        to: now.info.place.clone(),
        times,
        started,
        at: Duration::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procs::follow;
    use crate::tests::proc;
    use armento_client::api::ProcInfo;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn moves_are_differences_of_snapshots() {
        let with = |place: &str, moves, age_ms| ProcInfo {
            moves,
            age_ms,
            ..proc(7, "n1", place)
        };
        let mut moves = Moves::default();
        let mut before = Vec::new();
        let mut at = 0;
        let mut check = |told: Vec<ProcInfo>, want: &[(&str, &str, u64, bool)]| {
            let now = follow(&before, told);
            let known = moves.history().len();
            at += 1;
            moves.compare(&before, &now, S(at));
            before = now;
            let fresh = moves.history().len() - known;
            let seen = moves.history().iter().take(fresh);
            let seen: Vec<_> = seen
                .map(|m| (m.from.as_str(), m.to.as_str(), m.times, m.started))
                .collect();
            assert_eq!(seen, want);
        };
        // The first snapshot has no moves.
        check(vec![with("n3", 1, 500)], &[]);
        check(vec![with("n3", 1, 1500)], &[]);
        check(vec![with("n2", 2, 2500)], &[("n3", "n2", 1, false)]);
        check(vec![with("n1", 5, 3500)], &[("n2", "n1", 3, false)]);
        check(vec![with("n1", 6, 4500)], &[]);
        check(vec![with("n1", 8, 5500)], &[("n1", "n1", 2, false)]);
        check(vec![], &[]);
        check(vec![with("n3", 1, 800)], &[("n1", "n3", 1, true)]);
        check(vec![], &[]);
        // Long-running: processes of other users are now shown, too.
        check(vec![with("n3", 1, 80_000)], &[]);
        assert_eq!(moves.in_last_minute(S(at)), 7);
        assert_eq!(moves.in_last_minute(S(at + 60)), 0);
    }

    #[test]
    fn history_is_bounded() {
        let place = |p: &str| follow(&[], (0..600).map(|pid| proc(pid, "n1", p)).collect());
        let (a, b) = (place("n2"), place("n3"));
        let mut moves = Moves::default();
        for at in 0..10 {
            let (before, now) = if at % 2 == 0 { (&a, &b) } else { (&b, &a) };
            moves.compare(before, now, S(at));
        }
        assert_eq!(moves.history().len(), HISTORY_MAX);
        assert_eq!(moves.history()[0].number, 6000);
        assert_eq!(moves.in_last_minute(S(10)), 6000);
    }
}
