//! What was reached, beside the limit.

use crate::{Plan, Scenario};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// From the start of the first job to each one's end, seconds.
    pub ends_s: Vec<f64>,
    /// Jobs that never ended: killed, or not within the scenario's longest time.
    pub lost: usize,
    pub moves: u64,
    /// Processor time beyond the jobs' own work, seconds of a whole processor, where it is known.
    pub beside_s: Option<f64>,
}

/// One run, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub jobs: usize,
    pub policy: String,
    pub run: u32,
    /// What no scheduler beats, seconds.
    pub limit_s: f64,
    pub makespan_s: f64,
    /// Makespan over limit.
    pub ratio: f64,
    /// Mean time from the start of all to a job's end.
    pub mean_s: f64,
    pub moves: u64,
    /// Jobs that never ended.
    pub lost: usize,
    /// Processor time of all nodes beyond the jobs' own work, percent of it.
    pub beside_percent: Option<f64>,
}

impl Row {
    pub fn of(jobs: usize, policy: &str, run: u32, plan: &Plan, played: &Played) -> Row {
        let ends = played.ends_s.iter().copied();
        let makespan_s = ends.clone().fold(0.0, f64::max);
        let limit_s = plan.limit_s();
        let work_s: f64 = plan.jobs.iter().map(|j| j.work_s).sum();
        Row {
            jobs,
            policy: policy.to_owned(),
            run,
            limit_s,
            makespan_s,
            ratio: makespan_s / limit_s,
            mean_s: ends.sum::<f64>() / played.ends_s.len().max(1) as f64,
            moves: played.moves,
            lost: played.lost,
            beside_percent: played.beside_s.map(|s| s / work_s * 100.0),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = self
            .beside_percent
            .map_or("-".into(), |b| format!("{b:.1} %"));
        let lost = match self.lost {
            0 => String::new(),
            n => format!("; {n} NEVER ENDED"),
        };
        write!(
            f,
            "{:>4} {:<9} {:>8.2} s, {:.3} of the limit; mean {:>8.2} s; {:>4} moves; {beside} beside{lost}",
            self.jobs, self.policy, self.makespan_s, self.ratio, self.mean_s, self.moves
        )
    }
}

/// All runs of a scenario.
pub struct Table {
    about: String,
    pub rows: Vec<Row>,
}

impl Table {
    pub fn new(scenario: &Scenario) -> Table {
        Table {
            about: scenario.about.clone(),
            rows: Vec::new(),
        }
    }

    /// Medians of each number of jobs and policy.
    fn medians(&self) -> BTreeMap<(usize, &str), (f64, f64)> {
        let mut all: BTreeMap<(usize, &str), Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            all.entry((row.jobs, &row.policy)).or_default().push(row);
        }
        let of = |rows: &[&Row], what: fn(&Row) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(|r| what(r)).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let both = |rows: &Vec<&Row>| (of(rows, |r| r.ratio), of(rows, |r| r.mean_s));
        all.iter().map(|(key, rows)| (*key, both(rows))).collect()
    }

    pub fn render(&self) -> String {
        let medians = self.medians();
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&&*row.policy) {
                policies.push(&row.policy);
            }
        }
        let mut text = format!(
            "\n{}\nmakespan over limit (mean end, s), medians\n\n   N",
            self.about
        );
        policies.iter().for_each(|p| text += &format!(" {p:>18}"));
        text.push('\n');
        let mut counts: Vec<usize> = medians.keys().map(|(n, _)| *n).collect();
        counts.dedup();
        for n in counts {
            text += &format!("{n:>4}");
            for p in &policies {
                text += &medians
                    .get(&(n, p))
                    .map_or(format!("{:>19}", "-"), |(ratio, mean)| {
                        format!("{:>19}", format!("{ratio:.3} ({mean:.2})"))
                    });
            }
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        json!({
            "schema": "armento.played/1",
            "about": self.about,
            "rows": self.rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_stand_beside_each_other() {
        let text = "about = \"four\"\n[[nodes]]\ncount = 4\nspeed = 0.25\n[[jobs]]\ncount = 1\nseconds = 1.0\n";
        let scenario = Scenario::parse(text).expect("good");
        let mut table = Table::new(&scenario);
        for (policy, run, ratio) in [
            ("armento", 0, 1.5),
            ("armento", 1, 1.0),
            ("armento", 2, 1.1),
            ("static", 0, 2.0),
        ] {
            table.rows.push(Row {
                jobs: 5,
                policy: policy.into(),
                run,
                limit_s: 1.0,
                makespan_s: ratio,
                ratio,
                mean_s: ratio,
                moves: 0,
                lost: 0,
                beside_percent: None,
            });
        }
        let said = table.render();
        assert!(
            said.contains("   5       1.100 (1.10)       2.000 (2.00)\n"),
            "{said}"
        );
    }
}
