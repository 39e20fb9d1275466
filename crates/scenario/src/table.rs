//! What was reached, beside the limit.

use crate::{Plan, PublishedValue, Scenario};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    pub nodes: usize,
    pub jobs: usize,
    pub policy: String,
    pub run: u32,
    /// What no scheduler beats, seconds.
    pub limit_s: f64,
    pub makespan_s: f64,
    /// Makespan over limit.
    pub ratio: f64,
    /// Makespan over what the published rule of even numbers reaches, where that is known.
    pub of_rule: Option<f64>,
    /// How many times the first node the farm was worth.
    pub power: f64,
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
        // Where none has ended there is no makespan: in JSON null.
        let makespan_s = ends.clone().fold(f64::NAN, f64::max);
        let limit_s = plan.limit_s();
        let work_s: f64 = plan.jobs.iter().map(|j| j.work_s).sum();
        Row {
            nodes: plan.nodes.len(),
            jobs,
            policy: policy.to_owned(),
            run,
            limit_s,
            makespan_s,
            ratio: makespan_s / limit_s,
            of_rule: plan.rule_s().map(|s| makespan_s / s),
            power: plan.power(makespan_s),
            mean_s: ends.sum::<f64>() / played.ends_s.len() as f64,
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
    source: String,
    published: Vec<PublishedValue>,
    pub rows: Vec<Row>,
}

/// Nodes, jobs, policy.
type Key<'a> = (usize, usize, &'a str);

impl Table {
    pub fn new(scenario: &Scenario) -> Table {
        Table {
            about: scenario.about.clone(),
            source: scenario.published.source.clone(),
            published: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// What was published of the numbers of jobs that were played.
    pub fn beside(&mut self, played: &[Scenario]) {
        let jobs: BTreeSet<usize> = self.rows.iter().map(|r| r.jobs).collect();
        let values = played
            .iter()
            .flat_map(|s| jobs.iter().flat_map(|n| s.published(*n)));
        self.published = values.collect();
    }

    fn grouped(&self) -> BTreeMap<Key<'_>, Vec<&Row>> {
        let mut all: BTreeMap<Key<'_>, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            let key = (row.nodes, row.jobs, &*row.policy);
            all.entry(key).or_default().push(row);
        }
        all
    }

    /// In the order in which they were asked for.
    fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&&*row.policy) {
                policies.push(&row.policy);
            }
        }
        policies
    }

    pub fn render(&self) -> String {
        let mut text = format!("\n{}\n", self.about);
        text += &self.ratios();
        let sizes: BTreeSet<usize> = self.rows.iter().map(|r| r.nodes).collect();
        if sizes.len() > 1 {
            text += &self.powers();
        }
        text
    }

    fn ratios(&self) -> String {
        let (all, policies) = (self.grouped(), self.policies());
        let columns: BTreeSet<&str> = self.published.iter().map(|v| &*v.column).collect();
        let mut text = "makespan over limit (mean end, s), medians".to_owned();
        let ruled = self.rows.iter().any(|r| r.of_rule.is_some());
        if ruled {
            text += "; `rule`: numbers of programs even at all times, as published";
        }
        if !columns.is_empty() {
            text += &format!("\nbeside them as published: {}", self.source);
        }
        text += "\n\nnodes    N";
        policies.iter().for_each(|p| text += &format!(" {p:>18}"));
        if ruled {
            text += &format!(" {:>8}", "rule");
        }
        columns.iter().for_each(|c| text += &format!(" {:>8}", c));
        text.push('\n');
        let lines: BTreeSet<(usize, usize)> = all.keys().map(|(m, n, _)| (*m, *n)).collect();
        for (m, n) in lines {
            text += &format!("{m:>5} {n:>4}");
            for p in &policies {
                let shown = all.get(&(m, n, p)).map_or("-".into(), |rows| {
                    let (ratio, mean) = (median(rows, |r| r.ratio), median(rows, |r| r.mean_s));
                    match ratio.is_nan() {
                        true => "-".into(),
                        false => format!("{ratio:.3} ({mean:.2})"),
                    }
                });
                text += &format!(" {shown:>18}");
            }
            if ruled {
                let rule = self.rows.iter().find(|r| (r.nodes, r.jobs) == (m, n));
                let rule = rule
                    .and_then(|r| Some(r.ratio / r.of_rule?))
                    .filter(|r| !r.is_nan());
                text += &format!(" {:>8}", or_dash(rule));
            }
            for c in &columns {
                let value = self
                    .published
                    .iter()
                    .find(|v| v.jobs == n && v.column == *c);
                let width = c.chars().count().max(8);
                text += &format!(" {:>width$}", or_dash(value.map(|v| v.ratio)));
            }
            text.push('\n');
        }
        text
    }

    /// The farm's worth by its number of nodes, and in brackets what a straight line from the number before says.
    fn powers(&self) -> String {
        let (all, policies) = (self.grouped(), self.policies());
        let mut text =
            "\nequivalent nodes (forecast from one node less), medians\n\nnodes    N".to_owned();
        policies.iter().for_each(|p| text += &format!(" {p:>18}"));
        text.push('\n');
        let lines: BTreeSet<(usize, usize)> = all.keys().map(|(m, n, _)| (*n, *m)).collect();
        for (n, m) in lines {
            text += &format!("{m:>5} {n:>4}");
            for p in &policies {
                let power = |m: usize| {
                    let power = median(all.get(&(m, n, p))?, |r| r.power);
                    (!power.is_nan()).then_some(power)
                };
                let forecast = (m > 1).then(|| power(m - 1)).flatten();
                let forecast = forecast.map(|w| w * m as f64 / (m - 1) as f64);
                let shown = power(m).map_or("-".into(), |w| match forecast {
                    Some(f) => format!("{w:.3} ({f:.3})"),
                    None => format!("{w:.3}"),
                });
                text += &format!(" {shown:>18}");
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
            "published": self.published,
        })
    }
}

fn median(rows: &[&Row], what: fn(&Row) -> f64) -> f64 {
    let mut values: Vec<f64> = rows.iter().map(|r| what(r)).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn or_dash(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |r| format!("{r:.3}"))
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
            table.rows.push(row(4, policy, run, ratio));
        }
        let said = table.render();
        assert!(
            said.contains("    4    5       1.100 (1.10)       2.000 (2.00)\n"),
            "{said}"
        );
    }

    fn row(nodes: usize, policy: &str, run: u32, ratio: f64) -> Row {
        Row {
            nodes,
            jobs: 5,
            policy: policy.into(),
            run,
            ratio,
            mean_s: ratio,
            power: nodes as f64 / ratio,
            ..Row::default()
        }
    }

    #[test]
    fn the_curve_of_equivalent_power_has_its_forecast() {
        let text = "about = \"one\"\n[[nodes]]\nspeed = 1.0\n[[jobs]]\ncount = 5\nseconds = 1.0\n";
        let mut table = Table::new(&Scenario::parse(text).expect("good"));
        table.rows = vec![
            row(1, "armento", 0, 1.0),
            row(2, "armento", 0, 1.25),
            row(4, "armento", 0, 2.0),
        ];
        let said = table.render();
        for line in [
            "    1    5              1.000\n",
            "    2    5      1.600 (2.000)\n",
            "    4    5              2.000\n",
        ] {
            assert!(said.contains(line), "{line}{said}");
        }
    }
}
