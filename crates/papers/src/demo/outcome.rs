//! All results of the demo: the raw data of `--json`, and the verdict.

use crate::encoders::{Encoder, Hop, Plan, Sample, Seen, Usage};
use crate::figures::{Makespan, Power, Span, Spread, percent};
use serde::Serialize;
use std::collections::BTreeMap;

/// Changes when a field changes its meaning or is removed.
pub const SCHEMA: &str = "armento-demo/1";
/// Requirement of the demo: this share of the encoders' CPU time must have been spent away from n1.
pub const AWAY_PERCENT_MIN: f64 = 60.0;

#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub schema: &'static str,
    pub machine: Machine,
    pub encoder: Encoder,
    pub plan: Plan,
    pub options: &'static str,
    pub nodes: Vec<String>,
    pub single: Vec<Span>,
    pub farm: Vec<Span>,
    /// Jobs with an MP3 that is byte-identical to the native one, in each run.
    pub single_equal: usize,
    pub farm_equal: usize,
    /// Share of the machine's processors that the hypervisor gave to other machines during each run, percent.
    pub single_stolen_percent: f64,
    pub farm_stolen_percent: f64,
    pub usage: BTreeMap<usize, Usage>,
    pub hops: Vec<Hop>,
    pub samples: Vec<Sample>,
    /// The last log lines of n1's daemon, newest first.
    pub log: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub kernel: String,
    pub processor: String,
    pub cores: usize,
}

impl Machine {
    pub fn here() -> Machine {
        let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: model.map_or_else(String::new, |(_, m)| m.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The figures of the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The single node: first start to last end, as its jobs follow each other.
    pub single_s: f64,
    pub makespan: Makespan,
    pub percent: f64,
    pub spread: Spread,
    pub power: Power,
    pub away_percent: f64,
}

/// The power of one node, whatever the machine.
pub const Z: f64 = 100.0;

impl Outcome {
    /// `None` when no job ended.
    pub fn figures(&self) -> Option<Figures> {
        let single_s = Makespan::of(&self.single)?.last_end_minus_first_start_s;
        let makespan = Makespan::of(&self.farm)?;
        let durations: Vec<f64> = self.farm.iter().map(Span::duration).collect();
        let t = makespan.last_end_minus_first_start_s;
        Some(Figures {
            single_s,
            makespan,
            percent: percent(t, single_s),
            spread: Spread::of(&durations)?,
            power: Power::of(Z, self.nodes.len() as u32, single_s, t),
            away_percent: self.away_percent(),
        })
    }

    /// Share of the encoders' CPU time in the farm run that was spent away from n1.
    pub fn away_percent(&self) -> f64 {
        let sum = |f: fn(&Usage) -> u64| self.usage.values().map(f).sum::<u64>() as f64;
        match sum(|u| u.cpu_ms) {
            0.0 => 0.0,
            all => percent(sum(|u| u.away_cpu_ms), all),
        }
    }

    /// Reasons to stay that occurred, and in how many samples.
    pub fn reasons(&self) -> BTreeMap<&str, usize> {
        let mut all = BTreeMap::new();
        let seen = self.samples.iter().flat_map(|s| &s.encoders);
        for reason in seen.filter_map(|e| e.stay.as_deref()) {
            *all.entry(reason).or_insert(0) += 1;
        }
        all
    }

    /// Encoders of the farm run that had not ended in the last sample.
    pub fn unfinished(&self) -> Vec<String> {
        let last = self.samples.iter().rev().find(|s| !s.encoders.is_empty());
        let seen = last.map_or(&[][..], |s| &s.encoders);
        let open = seen
            .iter()
            .filter(|e| self.farm.iter().all(|done| done.job != e.job));
        let line = |e: &Seen| {
            format!(
                "lame {:02} was on {}: {} ms of CPU time, {} moves, {} calls sent home",
                e.job, e.place, e.cpu_ms, e.moves, e.forwarded
            )
        };
        open.map(line).collect()
    }

    /// Failed checks, one line each; none when the demo passed.
    pub fn failures(&self, jobs: usize) -> Vec<String> {
        let mut bad = Vec::new();
        for (run, equal) in [
            ("single-node", self.single_equal),
            ("farm", self.farm_equal),
        ] {
            if equal != jobs {
                bad.push(format!(
                    "{run} run: {equal} of {jobs} MP3 files equal the native one"
                ));
            }
        }
        let failed = self
            .single
            .iter()
            .chain(&self.farm)
            .filter(|s| s.status != 0)
            .count();
        if failed > 0 {
            bad.push(format!("{failed} encoders ended with an error"));
        }
        let away = self.away_percent();
        if away < AWAY_PERCENT_MIN {
            bad.push(format!(
                "only {away:.1} % of the CPU time was spent away from n1, {AWAY_PERCENT_MIN} % are asked for"
            ));
        }
        bad
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::encoders::Mode;

    /// A successful run: 24 jobs, 72 s alone, 18.5 s on four nodes.
    pub fn good() -> Outcome {
        let span = |job, start_s, end_s| Span {
            job,
            start_s,
            end_s,
            status: 0,
        };
        let encoder = Encoder {
            clip_s: 8.0,
            cpu_s: 0.6,
            bytes: 3e6,
        };
        let used = Usage {
            cpu_ms: 1200,
            away_cpu_ms: 900,
            moves: 1,
            forwarded: 900,
        };
        let hop = Hop {
            at_s: 0.5,
            job: 1,
            from: "n1".into(),
            to: "n2".into(),
        };
        Outcome {
            schema: SCHEMA,
            machine: Machine {
                kernel: "6.7".into(),
                processor: "test".into(),
                cores: 2,
            },
            encoder,
            plan: Plan::new(encoder, Mode::Stereo, 72.0, 0.4),
            options: Mode::Stereo.options(),
            nodes: ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec(),
            single: (0..24)
                .map(|i| span(i + 1, 3.0 * i as f64, 3.0 * (i + 1) as f64))
                .collect(),
            farm: (0..24)
                .map(|i| span(i + 1, 100.0, 117.0 + i as f64 / 16.0))
                .collect(),
            single_equal: 24,
            farm_equal: 24,
            single_stolen_percent: 0.0,
            farm_stolen_percent: 0.0,
            usage: (1..=24).map(|j| (j, used.clone())).collect(),
            hops: vec![hop],
            samples: Vec::new(),
            log: Vec::new(),
        }
    }

    #[test]
    fn a_good_run_passes() {
        let f = good().figures().unwrap();
        assert_eq!(f.single_s, 72.0);
        assert_eq!(f.makespan.longest_job_s, 18.4375);
        assert_eq!(f.away_percent, 75.0);
        assert_eq!(good().failures(24), Vec::<String>::new());
    }

    #[test]
    fn each_failed_check_is_reported() {
        let check = |spoil: fn(&mut Outcome), word: &str| {
            let mut o = good();
            spoil(&mut o);
            let bad = o.failures(24);
            assert!(bad.len() == 1 && bad[0].contains(word), "{bad:?}");
        };
        check(|o| o.farm_equal = 23, "farm run: 23 of 24");
        check(|o| o.single_equal = 0, "single-node run");
        check(|o| o.farm[3].status = 1, "1 encoders");
        check(
            |o| o.usage.values_mut().for_each(|u| u.away_cpu_ms = 700),
            "only 58.3 %",
        );
        check(|o| o.usage.clear(), "only 0.0 %");
    }

    #[test]
    fn stuck_encoders_are_reported() {
        let seen = |job| Seen {
            pid: 1,
            job,
            place: "n3".into(),
            cpu_ms: 7,
            away_cpu_ms: 0,
            moves: 1,
            forwarded: 12,
            stay: None,
        };
        let mut o = good();
        o.farm.truncate(23);
        o.samples = vec![Sample {
            at_s: 1.0,
            encoders: vec![seen(1), seen(24)],
        }];
        let expected = ["lame 24 was on n3: 7 ms of CPU time, 1 moves, 12 calls sent home"];
        assert_eq!(o.unfinished(), expected);
    }
}
