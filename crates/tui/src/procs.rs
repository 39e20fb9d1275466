//! Processes: their identity, differences between two snapshots, the filter.

mod columns;

pub use columns::COLUMNS;

use armento_client::api::ProcInfo;
use armento_model::{NodeName, Pid, TreeId, clean};
use std::collections::HashMap;

/// Rates are taken over at least this time, milliseconds: keepers report each half second, and once more after every
/// change.
const RATE_MS_MIN: u64 = 400;

/// One process of the farm. Pids are those of its home, and are reused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProcId {
    pub home: NodeName,
    pub pid: Pid,
    pub tree: TreeId,
}

impl ProcId {
    pub fn of(p: &ProcInfo) -> ProcId {
        ProcId {
            home: p.home.clone(),
            pid: p.pid,
            tree: p.tree,
        }
    }
}

/// A process and its rates from two snapshots.
#[derive(Clone, Debug)]
pub struct Proc {
    pub id: ProcId,
    pub info: ProcInfo,
    /// Without control characters.
    pub command: String,
    /// What is drawn before it where processes stand below their parents.
    pub branch: String,
    /// Of one processor; `None` until there are two snapshots.
    pub cpu_percent: Option<f64>,
    pub calls_per_s: Option<f64>,
    /// Start of the interval of the rates.
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
            id: ProcId::of(&info),
            command: clean(&info.command),
            branch: String::new(),
            info,
            cpu_percent: before.and_then(|b| b.cpu_percent),
            calls_per_s: before.and_then(|b| b.calls_per_s),
            base: before.map_or(now, |b| b.base),
        };
        // Its age is that of the moment at which its keeper took the sample: no delay of the report falsifies a rate.
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

    /// `@n3`: the process is on n3. Otherwise each word must be part of its pid, command, reason or one of its nodes.
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

/// The processes of `now`, with rates since `before`.
pub fn follow(before: &[Proc], now: Vec<ProcInfo>) -> Vec<Proc> {
    let known: HashMap<&ProcId, &Proc> = before.iter().map(|p| (&p.id, p)).collect();
    let proc = |info: ProcInfo| {
        let known = known.get(&ProcId::of(&info)).copied();
        Proc::new(info, known)
    };
    now.into_iter().map(proc).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{name, proc};

    #[test]
    fn rates_use_the_keeper_s_sample_times() {
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
        // Reported again after a change: too soon for a rate.
        check(at(1501, 760, 50), Some(50.0), Some(100.0));
        check(at(2500, 1750, 50), Some(100.0), Some(0.0));
        // Another process with the same pid.
        check(at(10, 1, 0), None, None);
        check(at(510, 501, 0), Some(100.0), Some(0.0));
    }

    #[test]
    fn filters_match_pid_command_reason_and_nodes() {
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
