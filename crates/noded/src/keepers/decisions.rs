//! The log of decisions of this node, with figures and outcomes: `armento log`.

use armento_balance::Grounds;
use armento_client::api::{LINE_MAX, LogEntry, Outcome};
use armento_model::{NodeName, Pid, Stay};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// Older ones are forgotten: a farm of a thousand processes that take turns fills it in a minute.
const ENTRIES_MAX: usize = 4096;

/// Bytes of entries in one answer, which is one line of a session.
const ANSWER_MAX: usize = LINE_MAX / 4 * 3;

/// The entries that somebody asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// Newer than this number …
    pub after: u64,
    /// … made since then, Unix time in milliseconds …
    pub since_ms: u64,
    /// … about this process, of this user.
    pub pid: Option<Pid>,
    pub uid: Option<u32>,
}

impl Which {
    fn takes(&self, e: &LogEntry) -> bool {
        let new = e.seq > self.after && e.at_ms >= self.since_ms;
        new && self.pid.is_none_or(|pid| pid == e.pid) && self.uid.is_none_or(|uid| uid == e.uid)
    }
}

pub struct Decisions {
    entries: VecDeque<LogEntry>,
    newest: u64,
}

/// Its memory is reserved at once and costs nothing until it is used.
impl Default for Decisions {
    fn default() -> Decisions {
        Decisions {
            entries: VecDeque::with_capacity(ENTRIES_MAX),
            newest: 0,
        }
    }
}

/// The process that was decided about, and where it goes.
pub struct About<'a> {
    pub pid: Pid,
    pub uid: u32,
    pub command: &'a str,
    pub from: &'a NodeName,
    pub to: &'a NodeName,
}

/// What was decided.
pub struct Decided<'a> {
    /// As [`LogEntry::cause`].
    pub cause: &'a str,
    pub figures: Option<Grounds>,
    /// Of the order; 0 where none was given.
    pub ticket: u64,
    pub outcome: Outcome,
}

impl Decided<'_> {
    /// An order was given; its outcome is not known yet.
    pub fn ordered(cause: &str, ticket: u64) -> Decided<'_> {
        Decided {
            cause,
            figures: None,
            ticket,
            outcome: Outcome::UnderWay,
        }
    }
}

impl Decisions {
    pub fn note(&mut self, about: &About, decided: Decided) {
        let figures = decided.figures;
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.newest += 1;
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        self.entries.push_back(LogEntry {
            seq: self.newest,
            at_ms: at.map_or(0, |at| at.as_millis() as u64),
            pid: about.pid,
            uid: about.uid,
            command: about.command.to_owned(),
            from: about.from.clone(),
            to: about.to.clone(),
            cause: decided.cause.to_owned(),
            now_milli: figures.map(|f| f.now_milli),
            then_milli: figures.map(|f| f.then_milli),
            price_ms: figures.map(|f| f.price_ms),
            lag_ms: figures.map(|f| f.lag_ms),
            lost_now_permille: figures.map(|f| f.lost_now_permille),
            lost_then_permille: figures.map(|f| f.lost_then_permille),
            ticket: decided.ticket,
            outcome: decided.outcome,
        });
    }

    /// The outcome of an order.
    pub fn ended(&mut self, ticket: u64, outcome: Outcome) {
        let of = |e: &&mut LogEntry| e.ticket == ticket && ticket != 0;
        if let Some(entry) = self.entries.iter_mut().rev().find(of) {
            entry.outcome = outcome;
        }
    }

    /// A program that was placed began where it was to, or at home after all.
    pub fn began(&mut self, pid: Pid) {
        let of = |e: &&mut LogEntry| e.pid == pid && e.cause == "placed";
        let placed = self.entries.iter_mut().rev().find(of);
        if let Some(entry) = placed.filter(|e| e.outcome == Outcome::UnderWay) {
            entry.outcome = Outcome::Began;
        }
    }

    /// A dry run decides the same each time: it is logged once.
    pub fn has_said(&self, about: &About) -> bool {
        let last = self.entries.iter().rev().find(|e| e.pid == about.pid);
        last.is_some_and(|e| e.outcome == Outcome::DryRun && e.to == *about.to)
    }

    /// The newest `count` of those that are wanted, and fewer where they do not fit one answer; oldest first.
    pub fn newest(&self, which: &Which, count: usize) -> Vec<LogEntry> {
        let mut room = ANSWER_MAX;
        let fits = |e: &&LogEntry| {
            let bytes = serde_json::to_vec(e).map_or(0, |text| text.len() + 1);
            let left = room.checked_sub(bytes);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let wanted = self.entries.iter().rev().filter(|e| which.takes(e));
        let mut all: Vec<LogEntry> = wanted.take(count).take_while(fits).cloned().collect();
        all.reverse();
        all
    }
}

/// What `armento log` says of a move that did not happen.
pub fn stayed(stay: Stay, detail: &str) -> Outcome {
    Outcome::Stayed {
        stay,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(log: &mut Decisions, pid: Pid, uid: u32, ticket: u64, outcome: Outcome) {
        let [from, to] = ["n1", "n2"].map(|n| n.parse().expect("name"));
        let about = About {
            pid,
            uid,
            command: "perl",
            from: &from,
            to: &to,
        };
        let decided = Decided {
            outcome,
            ..Decided::ordered("share", ticket)
        };
        log.note(&about, decided);
    }

    #[test]
    fn the_log_is_bounded_and_outcomes_find_their_orders() {
        let mut log = Decisions::default();
        for n in 1..=ENTRIES_MAX as u64 + 5 {
            note(&mut log, n as Pid, 1000, n, Outcome::UnderWay);
        }
        assert_eq!((log.entries.len(), log.entries[0].seq), (ENTRIES_MAX, 6));
        log.ended(7, stayed(Stay::Busy, "vfork"));
        log.ended(1, stayed(Stay::Busy, "forgotten"));
        let ended = log.entries.range(1..);
        let ended: Vec<&LogEntry> = ended.collect();
        assert_eq!(ended[0].outcome, stayed(Stay::Busy, "vfork"));
        assert_eq!(ended[1].outcome, Outcome::UnderWay);
    }

    #[test]
    fn users_see_their_own_entries_newest_last() {
        let mut log = Decisions::default();
        [1000, 1001, 1000, 1000]
            .into_iter()
            .zip(1..)
            .for_each(|(uid, n)| {
                note(&mut log, n, uid, 0, Outcome::DryRun);
            });
        let seqs = |after, count, uid| -> Vec<u64> {
            let which = Which {
                after,
                uid,
                ..Which::default()
            };
            let all = log.newest(&which, count);
            all.iter().map(|e| e.seq).collect()
        };
        assert_eq!(seqs(0, 2, Some(1000)), [3, 4]);
        assert_eq!(seqs(1, 9, Some(1000)), [3, 4]);
        assert_eq!(seqs(0, 9, Some(7)), [0; 0]);
        let of_one = Which {
            pid: Some(3),
            ..Which::default()
        };
        assert_eq!(log.newest(&of_one, 9)[0].seq, 3);
        let later = Which {
            since_ms: u64::MAX,
            ..Which::default()
        };
        assert!(log.newest(&later, 9).is_empty());
    }

    #[test]
    fn an_answer_fits_one_line() {
        let mut log = Decisions::default();
        let long = stayed(Stay::Busy, &"x".repeat(LINE_MAX / 10));
        for n in 1..=20 {
            note(&mut log, n, 0, 0, long.clone());
        }
        let all = log.newest(&Which::default(), usize::MAX);
        assert_eq!((all.len(), all[0].seq), (7, 14));
    }
}
