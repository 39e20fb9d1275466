//! Published values of the same experiment, to compare with a run.

use crate::check::JOBS_MAX;
use crate::file::{Published, Scenario};
use serde::Serialize;
use std::collections::BTreeSet;

/// Limits on numbers of jobs, and columns.
const ROWS_MAX: usize = 1000;
const COLUMNS_MAX: usize = 20;

/// One published value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    pub nodes: usize,
    pub column: String,
    pub jobs: usize,
    pub seconds: f64,
    /// Ratio to the lower bound of any scheduler.
    pub ratio: f64,
}

impl Published {
    pub(crate) fn check(&self) -> Result<(), String> {
        let rows = self.jobs.len();
        if rows > ROWS_MAX || self.columns.len() > COLUMNS_MAX {
            return Err(format!(
                "[published] has {ROWS_MAX} numbers of jobs and {COLUMNS_MAX} columns at most"
            ));
        }
        if self.copies.len() > COLUMNS_MAX || self.copies.values().any(|c| c.len() > ROWS_MAX) {
            return Err(format!(
                "[published] copies has {ROWS_MAX} nodes and {COLUMNS_MAX} columns at most"
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some(n) = self
            .jobs
            .iter()
            .find(|n| !(1..=JOBS_MAX).contains(*n) || !seen.insert(**n))
        {
            return Err(format!(
                "[published] jobs: {n}: each from 1 to {JOBS_MAX}, and once"
            ));
        }
        for (name, seconds) in &self.columns {
            if seconds.len() != rows {
                let n = seconds.len();
                return Err(format!(
                    "[published] `{name}` has {n} values for {rows} numbers of jobs"
                ));
            }
            if let Some(s) = seconds.iter().find(|s| !(1e-3..=1e9).contains(*s)) {
                return Err(format!("[published] `{name}`: {s} is no makespan"));
            }
        }
        Ok(())
    }
}

impl Scenario {
    /// Published values for so many jobs, over the limit of the unscaled scenario: start times are not scaled as jobs
    /// are.
    pub fn published(&self, jobs: usize) -> Vec<Value> {
        let Some(row) = self.published.jobs.iter().position(|n| *n == jobs) else {
            return Vec::new();
        };
        let mut full = self.clone();
        full.jobs.iter_mut().for_each(|j| j.seconds /= self.scale);
        let limit_s = full.plan(jobs, 1).limit_s();
        let value = |(column, seconds): (&String, &Vec<f64>)| Value {
            nodes: self.size(),
            column: column.clone(),
            jobs,
            seconds: seconds[row],
            ratio: seconds[row] / limit_s,
        };
        self.published.columns.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
about = "test 1"
series = [17]
[[nodes]]
count = 16
speed = 0.1
[[jobs]]
seconds = 300.0
[published]
source = "somewhere"
jobs = [16, 17]
columns = { MOSIX = [310.83, 456.91], PVM = [317.12, 604.36] }
"#;

    #[test]
    fn published_values_are_compared_with_the_unscaled_limit() {
        let scenario = Scenario::parse(TEXT).expect("good");
        let values = scenario.published(17);
        assert_eq!(values.len(), 2);
        assert_eq!((&*values[0].column, values[0].seconds), ("MOSIX", 456.91));
        assert!((values[0].ratio - 456.91 / 318.75).abs() < 1e-9);
        // Start times are not scaled with the jobs.
        for late in ["", "every = 50.0", "at = 7.0"] {
            let text = TEXT.replace("[published]", &format!("{late}\n[published]"));
            let full = Scenario::parse(&text).expect("good");
            let mut tenth = full.clone();
            tenth.scale = 0.1;
            tenth.jobs[0].seconds = 30.0;
            let ratio = |s: &Scenario| s.published(17)[0].ratio;
            assert!((ratio(&tenth) - ratio(&full)).abs() < 1e-9, "{late}");
        }
        assert_eq!(scenario.published(18), []);
    }

    #[test]
    fn inconsistent_values_are_refused() {
        for (from, to, part) in [
            ("[16, 17]", "[16]", "`MOSIX` has 2 values for 1 numbers"),
            ("604.36", "-1.0", "`PVM`: -1 is no makespan"),
            ("604.36", "nan", "`PVM`: NaN is no makespan"),
            ("[16, 17]", "[0, 17]", "jobs: 0: each from 1"),
            ("[16, 17]", "[17, 17]", "jobs: 17: each"),
            ("[16, 17]", "[16, 1000001]", "jobs: 1000001: each"),
            ("source", "sauce", "sauce"),
        ] {
            let e = Scenario::parse(&TEXT.replace(from, to)).expect_err(to);
            assert!(e.contains(part), "{e}");
        }
    }
}
