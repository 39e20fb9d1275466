//! Results of runs, compared with the limit.

use crate::copies;
use crate::{PublishedValue, Row, Scenario};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// All runs of a scenario.
pub struct Table {
    about: String,
    source: String,
    published: Vec<PublishedValue>,
    copies: BTreeMap<String, Vec<f64>>,
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
            copies: scenario.published.copies.clone(),
            rows: Vec::new(),
        }
    }

    /// Adds published values for the numbers of jobs that were run.
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

    /// In the order of the command line.
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
        text += &copies::render(&self.rows, &self.policies(), &self.copies);
        text
    }

    /// Ratios of policies, the rule and published values, for each number of nodes and jobs.
    fn ratios(&self) -> String {
        let (all, policies) = (self.grouped(), self.policies());
        let columns: BTreeSet<&str> = self.published.iter().map(|v| &*v.column).collect();
        let ruled = self.rows.iter().any(|r| r.of_rule.is_some());
        let mut text = self.legend(ruled);
        text += &head(&policies);
        if ruled {
            text += &format!(" {:>8}", "rule");
        }
        columns.iter().for_each(|c| text += &format!(" {c:>8}"));
        text.push('\n');
        let lines: BTreeSet<(usize, usize)> = all.keys().map(|(m, n, _)| (*m, *n)).collect();
        for (m, n) in lines {
            text += &format!("{m:>5} {n:>4}");
            for p in &policies {
                let shown = all.get(&(m, n, p)).map_or("-".into(), |rows| reached(rows));
                text += &format!(" {shown:>18}");
            }
            if ruled {
                text += &format!(" {:>8}", or_dash(self.rule(m, n)));
            }
            for c in &columns {
                let width = c.chars().count().max(8);
                text += &format!(" {:>width$}", or_dash(self.printed(m, n, c)));
            }
            text.push('\n');
        }
        text
    }

    fn legend(&self, ruled: bool) -> String {
        let mut text = "makespan over limit (mean end, s), medians".to_owned();
        if ruled {
            text += "; `rule`: numbers of programs even at all times, as published";
        }
        if self.rows.iter().any(|r| r.lost > 0) {
            text += "; *: of those that ended, and some did not";
        }
        if !self.published.is_empty() {
            text += &format!("\nbeside them as published: {}", self.source);
        }
        text
    }

    /// As a ratio to the limit, as all columns are.
    fn rule(&self, nodes: usize, jobs: usize) -> Option<f64> {
        let rows = self
            .rows
            .iter()
            .filter(|r| (r.nodes, r.jobs) == (nodes, jobs));
        rows.filter_map(|r| Some(r.ratio / r.of_rule?)).next()
    }

    fn printed(&self, nodes: usize, jobs: usize, column: &str) -> Option<f64> {
        let mut values = self.published.iter();
        let value = values.find(|v| (v.nodes, v.jobs, &*v.column) == (nodes, jobs, column));
        value.map(|v| v.ratio)
    }

    /// The farm's power by its number of nodes, and in brackets the value that a straight line from the number before
    /// predicts.
    fn powers(&self) -> String {
        let (all, policies) = (self.grouped(), self.policies());
        let mut text = "\nequivalent nodes (forecast from one node less), medians".to_owned();
        text += &head(&policies);
        text.push('\n');
        let lines: BTreeSet<(usize, usize)> = all.keys().map(|(m, n, _)| (*n, *m)).collect();
        for (n, m) in lines {
            text += &format!("{m:>5} {n:>4}");
            for p in &policies {
                let power = |m: usize| {
                    let power = median(all.get(&(m, n, p))?, |r| r.power.unwrap_or(f64::NAN));
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
            "published_copies": self.copies,
        })
    }
}

fn head(policies: &[&str]) -> String {
    let names = policies.iter().map(|p| format!(" {p:>18}"));
    format!("\n\nnodes    N{}", names.collect::<String>())
}

/// The cell of some runs.
fn reached(rows: &[&Row]) -> String {
    let (ratio, mean) = (median(rows, |r| r.ratio), median(rows, |r| r.mean_s));
    let lost = if rows.iter().any(|r| r.lost > 0) {
        "*"
    } else {
        ""
    };
    match ratio.is_nan() {
        true => "-".into(),
        false => format!("{ratio:.3} ({mean:.2}){lost}"),
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
    fn table_shows_medians() {
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

    #[test]
    fn published_values_match_their_number_of_nodes_and_lost_jobs_are_marked() {
        let text = "about = \"two\"\nseries = [5]\n[[nodes]]\ncount = 2\nspeed = 1.0\n[[jobs]]\nseconds = 1.0\n\
                    [published]\nsource = \"here\"\njobs = [5]\ncolumns = { theirs = [5.0] }\n";
        let scenario = Scenario::parse(text).expect("good");
        let mut table = Table::new(&scenario);
        table.rows = vec![row(1, "armento", 0, 1.0), row(2, "armento", 0, 1.25)];
        table.rows[0].lost = 1;
        table.beside(&scenario.sizes(&[1, 2]).expect("sizes"));
        let said = table.render();
        for line in [
            "beside them as published: here\n",
            "    1    5      1.000 (1.00)*        -\n",
            "    2    5       1.250 (1.25)    2.000\n",
        ] {
            assert!(said.contains(line), "{line}{said}");
        }
    }

    fn row(nodes: usize, policy: &str, run: u32, ratio: f64) -> Row {
        Row {
            nodes,
            jobs: 5,
            policy: policy.into(),
            run,
            ratio,
            mean_s: ratio,
            power: Some(nodes as f64 / ratio),
            ..Row::default()
        }
    }

    #[test]
    fn equivalent_power_has_its_forecast() {
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
