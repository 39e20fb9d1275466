//! The result of one run, compared with the limit.

use crate::Plan;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The outcome of one run.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Time from the start of the first job to each one's end, seconds.
    pub ends_s: Vec<f64>,
    /// Jobs that never ended: killed, or not within the scenario's time limit.
    pub lost: usize,
    /// When the last copy of each home ended, from the start of the first job; of homes that copied all.
    pub copies_s: BTreeMap<usize, f64>,
    pub moves: u64,
    /// CPU time beyond the jobs' own work, seconds of a whole processor, where it is known.
    pub beside_s: Option<f64>,
}

impl Played {
    /// Notes the ends of the jobs of `home`, by number: the last of its copies counts, if all of them have ended.
    pub fn copied(&mut self, plan: &Plan, home: usize, ends: &[(usize, f64)]) {
        let is_copy = |i: usize| plan.jobs.get(i).is_some_and(|j| j.copy.is_some());
        let jobs = plan.jobs.iter().filter(|j| j.home == home);
        let copies = jobs.filter(|j| j.copy.is_some()).count();
        let ended: Vec<f64> = ends
            .iter()
            .filter(|(i, _)| is_copy(*i))
            .map(|e| e.1)
            .collect();
        if copies > 0 && ended.len() == copies {
            let last = ended.into_iter().fold(0.0, f64::max);
            self.copies_s.insert(home, last);
        }
    }
}

/// One run as it is printed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    pub nodes: usize,
    pub jobs: usize,
    pub policy: String,
    pub run: u32,
    /// Lower bound of any scheduler's makespan, seconds.
    pub limit_s: f64,
    pub makespan_s: f64,
    /// Makespan over limit.
    pub ratio: f64,
    /// Makespan over that of the published rule of even numbers, where that is known and all jobs ended.
    pub of_rule: Option<f64>,
    /// Power of the farm in units of the first node, where all jobs ended.
    pub power: Option<f64>,
    /// Mean time from the start of all to a job's end.
    pub mean_s: f64,
    pub moves: u64,
    /// Jobs that never ended.
    pub lost: usize,
    /// CPU time of all nodes beyond the jobs' own work, percent of it.
    pub beside_percent: Option<f64>,
    /// When the last copy of each node ended, by the node's number from 1, where nodes copy files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub copies_s: BTreeMap<usize, f64>,
}

impl Row {
    pub fn of(jobs: usize, policy: &str, run: u32, plan: &Plan, played: &Played) -> Row {
        let ends = played.ends_s.iter().copied();
        // Where no job has ended there is no makespan: null in JSON.
        let makespan_s = ends.clone().fold(f64::NAN, f64::max);
        let limit_s = plan.limit_s();
        // For a part of the jobs neither has a meaning.
        let all = played.lost == 0;
        let work_s: f64 = plan.jobs.iter().map(|j| j.work_s).sum();
        Row {
            nodes: plan.nodes.len(),
            jobs,
            policy: policy.to_owned(),
            run,
            limit_s,
            makespan_s,
            ratio: makespan_s / limit_s,
            of_rule: plan.rule_s().filter(|_| all).map(|s| makespan_s / s),
            power: all.then(|| plan.power(makespan_s)),
            mean_s: ends.sum::<f64>() / played.ends_s.len() as f64,
            moves: played.moves,
            lost: played.lost,
            beside_percent: played.beside_s.map(|s| s / work_s * 100.0),
            copies_s: played.copies_s.iter().map(|(n, s)| (n + 1, *s)).collect(),
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
        let ends = self.copies_s.iter();
        let ends: Vec<String> = ends.map(|(node, s)| format!("n{node} {s:.1}")).collect();
        let copies = match ends.is_empty() {
            true => String::new(),
            false => format!("; copies {} s", ends.join(" ")),
        };
        let worth = self
            .power
            .map_or(String::new(), |w| format!("worth {w:.2} nodes; "));
        write!(
            f,
            "{:>4} {:<9} {:>8.2} s, {:.3} of the limit; {worth}mean {:>8.2} s; {:>4} moves; {beside} beside{copies}{lost}",
            self.jobs, self.policy, self.makespan_s, self.ratio, self.mean_s, self.moves
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn unfinished_runs_have_no_power() {
        let text = "about = \"four\"\n[[nodes]]\ncount = 4\nspeed = 0.5\n[[jobs]]\ncount = 5\nseconds = 8.0\n";
        let plan = Scenario::parse(text).expect("good").plan(0, 1);
        let mut played = Played {
            ends_s: vec![8.0, 8.0, 8.0, 16.0, 16.0],
            ..Played::default()
        };
        let all = Row::of(5, "static", 0, &plan, &played);
        assert_eq!((all.ratio, all.power), (1.6, Some(2.5)));
        assert_eq!(all.of_rule, Some(16.0 / 12.0));
        assert!(all.to_string().contains("; worth 2.50 nodes; "), "{all}");
        played.ends_s.truncate(3);
        played.lost = 2;
        let some = Row::of(5, "static", 0, &plan, &played);
        assert_eq!((some.of_rule, some.power), (None, None));
        assert!(some.to_string().ends_with("; 2 NEVER ENDED"), "{some}");
    }
}
