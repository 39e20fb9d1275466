//! Processes as lines: columns, rates, filter.

use crate::columns::{Cell, Column, Width};
use crate::look::Role;
use crate::nodes::natural;
use armento_client::api::ProcInfo;
use armento_model::{NodeName, Pid, TreeId, clean, size, span};
use ratatui::text::Line;
use std::collections::HashMap;

/// Rates are taken over no less, milliseconds: keepers report each half second, and once more after every change.
const RATE_MS_MIN: u64 = 400;

/// One process of the farm. Pids are those of its home, and are given out again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    pub home: NodeName,
    pub pid: Pid,
    pub tree: TreeId,
}

impl Who {
    pub fn of(p: &ProcInfo) -> Who {
        Who {
            home: p.home.clone(),
            pid: p.pid,
            tree: p.tree,
        }
    }
}

/// A process and what two looks at it tell.
#[derive(Clone, Debug)]
pub struct Proc {
    pub who: Who,
    pub info: ProcInfo,
    /// Safe to show.
    pub command: String,
    /// Of one processor; `None` until it was seen twice.
    pub cpu_percent: Option<f64>,
    pub calls_per_s: Option<f64>,
    /// Since when rates are taken.
    base: Sample,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    age_ms: u64,
    cpu_ms: u64,
    forwarded: u64,
}

impl Proc {
    fn new(info: ProcInfo, before: Option<&Proc>) -> Proc {
        let now = Sample {
            age_ms: info.age_ms,
            cpu_ms: info.cpu_ms,
            forwarded: info.forwarded,
        };
        let mut proc = Proc {
            who: Who::of(&info),
            command: clean(&info.command),
            info,
            cpu_percent: before.and_then(|b| b.cpu_percent),
            calls_per_s: before.and_then(|b| b.calls_per_s),
            base: before.map_or(now, |b| b.base),
        };
        // Its age is of the moment at which its keeper looked: no delay on the way falsifies a rate.
        let ms = now.age_ms.saturating_sub(proc.base.age_ms);
        if ms >= RATE_MS_MIN || now.age_ms < proc.base.age_ms {
            let rate = |now: u64, before: u64| {
                now.checked_sub(before)
                    .filter(|_| ms > 0)
                    .map(|more| more as f64 / ms as f64)
            };
            proc.cpu_percent = rate(now.cpu_ms, proc.base.cpu_ms).map(|r| r * 100.0);
            proc.calls_per_s = rate(now.forwarded, proc.base.forwarded).map(|r| r * 1000.0);
            proc.base = now;
        }
        proc
    }

    pub fn is_away(&self) -> bool {
        self.info.place != self.info.home
    }

    /// `@n3`: it is there. Otherwise each word is in its pid, command, reason or one of its nodes.
    pub fn passes(&self, filter: &str) -> bool {
        if let Some(place) = filter.strip_prefix('@') {
            return self.info.place.as_str() == place;
        }
        let filter = filter.to_lowercase();
        let mut words = filter.split_whitespace().peekable();
        if words.peek().is_none() {
            return true;
        }
        let (home, place) = (self.info.home.as_str(), self.info.place.as_str());
        let (pid, command) = (self.info.pid.to_string(), self.command.to_lowercase());
        let why = self.info.stay_word();
        let texts = [home, place, &pid, &command, &why];
        words.all(|w| texts.iter().any(|t| t.contains(w)))
    }
}

/// What is now, with rates since `before`.
pub fn follow(before: &[Proc], now: Vec<ProcInfo>) -> Vec<Proc> {
    let known: HashMap<&Who, &Proc> = before.iter().map(|p| (&p.who, p)).collect();
    let proc = |info: ProcInfo| {
        let known = known.get(&Who::of(&info)).copied();
        Proc::new(info, known)
    };
    now.into_iter().map(proc).collect()
}

pub const COLUMNS: &[Column<Proc>] = &[
    Column {
        head: "PID",
        about: "its number at home",
        right: true,
        width: Width::Pids,
        rank: 0,
        grows: 0,
        falls: false,
        cell: |p, c| c.text(p.info.pid.to_string(), Role::Plain),
        order: |a, b| a.info.pid.cmp(&b.info.pid),
    },
    Column {
        head: "HOME",
        about: "where it was born",
        right: false,
        width: Width::Names,
        rank: 2,
        grows: 0,
        falls: false,
        cell: |p, c| c.text(p.info.home.as_str(), Role::Plain),
        order: |a, b| natural(a.info.home.as_str(), b.info.home.as_str()),
    },
    Column {
        head: "WHERE",
        about: "where it runs",
        right: false,
        width: Width::Names,
        rank: 0,
        grows: 0,
        falls: false,
        cell: |p, c| {
            let role = if p.is_away() { Role::Away } else { Role::Plain };
            c.text(p.info.place.as_str(), role)
        },
        order: |a, b| natural(a.info.place.as_str(), b.info.place.as_str()),
    },
    Column {
        head: "CPU%",
        about: "of one processor, of late",
        right: true,
        width: Width::Cells(5),
        rank: 0,
        grows: 0,
        falls: true,
        cell: |p, c| rate(p.cpu_percent, c),
        order: |a, b| {
            a.cpu_percent
                .unwrap_or(-1.0)
                .total_cmp(&b.cpu_percent.unwrap_or(-1.0))
        },
    },
    Column {
        head: "SINCE",
        about: "how long ago it started",
        right: true,
        width: Width::Cells(6),
        rank: 4,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(span(p.info.age_ms), Role::Plain),
        order: |a, b| a.info.age_ms.cmp(&b.info.age_ms),
    },
    Column {
        head: "MEMORY",
        about: "what it has in memory",
        right: true,
        width: Width::Cells(6),
        rank: 3,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(size(p.info.rss_kib), Role::Plain),
        order: |a, b| a.info.rss_kib.cmp(&b.info.rss_kib),
    },
    Column {
        head: "MOVES",
        about: "how often it moved",
        right: true,
        width: Width::Cells(5),
        rank: 5,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(p.info.moves.to_string(), Role::Plain),
        order: |a, b| a.info.moves.cmp(&b.info.moves),
    },
    Column {
        head: "CALL/s",
        about: "system calls sent home, of late",
        right: true,
        width: Width::Cells(6),
        rank: 4,
        grows: 0,
        falls: true,
        cell: |p, c| rate(p.calls_per_s, c),
        order: |a, b| {
            a.calls_per_s
                .unwrap_or(-1.0)
                .total_cmp(&b.calls_per_s.unwrap_or(-1.0))
        },
    },
    Column {
        head: "CPU",
        about: "CPU time, home and away together, seconds",
        right: true,
        width: Width::Cells(8),
        rank: 6,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(seconds(p.info.cpu_ms), Role::Plain),
        order: |a, b| a.info.cpu_ms.cmp(&b.info.cpu_ms),
    },
    Column {
        head: "AWAY",
        about: "of which away",
        right: true,
        width: Width::Cells(8),
        rank: 7,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(seconds(p.info.away_cpu_ms), Role::Plain),
        order: |a, b| a.info.away_cpu_ms.cmp(&b.info.away_cpu_ms),
    },
    Column {
        head: "THR",
        about: "its threads",
        right: true,
        width: Width::Cells(4),
        rank: 8,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(p.info.threads.to_string(), Role::Plain),
        order: |a, b| a.info.threads.cmp(&b.info.threads),
    },
    Column {
        head: "WHY",
        about: "why it stays where it is, as `armento why` explains",
        right: false,
        width: Width::Cells(12),
        rank: 1,
        grows: 1,
        falls: false,
        cell: |p, c| {
            let word = p.info.stay_word();
            let role = match (p.info.lost_ms, &*word) {
                (Some(_), _) => Role::Bad,
                (None, "-") => Role::Dim,
                (None, _) => Role::Plain,
            };
            c.text(word, role)
        },
        order: |a, b| a.info.stay_word().cmp(&b.info.stay_word()),
    },
    Column {
        head: "COMMAND",
        about: "its command line",
        right: false,
        width: Width::Cells(10),
        rank: 0,
        grows: 9,
        falls: false,
        cell: |p, c| c.text(c.look.command(&p.command, c.width), Role::Plain),
        order: |a, b| a.command.cmp(&b.command),
    },
];

/// A number that is known from the second look on.
fn rate(value: Option<f64>, c: &Cell) -> Line<'static> {
    match value {
        None => c.text("-", Role::Dim),
        Some(v) if v >= 1e6 => c.text(format!("{:.0}M", v / 1e6), Role::Plain),
        Some(v) if v >= 1e5 => c.text(format!("{:.0}k", v / 1e3), Role::Plain),
        Some(v) => c.text(format!("{v:.0}"), Role::Plain),
    }
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{name, proc};

    #[test]
    fn rates_are_those_of_the_keeper_s_looks() {
        let at = |age_ms, cpu_ms, forwarded| ProcInfo {
            age_ms,
            cpu_ms,
            forwarded,
            ..proc(1, "n1", "n2")
        };
        let mut procs = Vec::new();
        let mut check = |info, cpu: Option<f64>, calls: Option<f64>| {
            procs = follow(&procs, vec![info]);
            assert_eq!((procs[0].cpu_percent, procs[0].calls_per_s), (cpu, calls));
        };
        check(at(1000, 500, 0), None, None);
        check(at(1000, 500, 0), None, None);
        check(at(1500, 750, 50), Some(50.0), Some(100.0));
        // Told again after a change: too soon for a rate.
        check(at(1501, 760, 50), Some(50.0), Some(100.0));
        check(at(2500, 1750, 50), Some(100.0), Some(0.0));
        // Another process of that number.
        check(at(10, 1, 0), None, None);
        check(at(510, 501, 0), Some(100.0), Some(0.0));
    }

    #[test]
    fn filters_look_at_all_that_names_it() {
        let info = ProcInfo {
            command: "lame -b 256 Lied.wav".into(),
            locked: true,
            ..proc(4711, "n1", "n10")
        };
        let procs = follow(&[], vec![info]);
        let check = |filter: &str, passes| assert_eq!(procs[0].passes(filter), passes, "{filter}");
        for filter in [
            "", " ", "lame", "LIED", "471", "n1", "@n10", "lame n10", "locked",
        ] {
            check(filter, true);
        }
        for filter in ["@n1", "n2", "lame n2", "4712"] {
            check(filter, false);
        }
        assert!(procs[0].is_away() && procs[0].info.place == name("n10"));
    }
}
