//! Jobs as a shell starts them, and what they say.

use armento_scenario::Plan;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the program that computes has itself.
const PROGRAM_MIB: u64 = 4;

/// The jobs of each home.
pub fn by_home(plan: &Plan) -> BTreeMap<usize, Vec<usize>> {
    let mut homes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, job) in plan.jobs.iter().enumerate() {
        homes.entry(job.home).or_default().push(i);
    }
    homes
}

/// As a user would: each in the background, then wait.
pub fn script(plan: &Plan, jobs: &[usize], rounds: &[u64], dir: &str) -> String {
    let mut text = format!("export ARMENTO_SUMMARY={dir}/summary\n");
    let mut at = 0.0;
    for &i in jobs {
        let start = plan.jobs[i].at_s;
        if start > at {
            text += &format!("sleep {:.3}\n", start - at);
            at = start;
        }
        let (rounds, mib) = (rounds[i], held_mib(plan, i));
        text +=
            &format!("armento run armento lab-init spin {i} {rounds} {mib} >> {dir}/report &\n");
    }
    text + "wait\n"
}

/// What a job takes beside the program itself.
pub fn held_mib(plan: &Plan, job: usize) -> u64 {
    plan.jobs[job].mem_mib.saturating_sub(PROGRAM_MIB)
}

/// When each job ended, seconds since `epoch_s`.
pub fn ended(report: &str, epoch_s: f64) -> Vec<f64> {
    let one = |line: &str| {
        let (_, ns) = line.split_once(' ')?;
        Some(ns.parse::<u64>().ok()? as f64 / 1e9 - epoch_s)
    };
    report.lines().filter_map(one).collect()
}

/// Moves of all processes that keepers tell of at their end.
pub fn moves(summary: &str) -> u64 {
    let one = |line: &str| {
        let doc: serde_json::Value = serde_json::from_str(line).ok()?;
        doc["moves"].as_u64()
    };
    summary.lines().filter_map(one).sum()
}

/// Unix time.
pub fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |d| d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let all = ended("3 2500000000\nhalf\n4 3000000000\n", 1.0);
        assert_eq!(all, [1.5, 2.0]);
        assert_eq!(moves("{\"moves\": 3}\n{}\n{\"moves\": 2}\n"), 5);
    }
}
