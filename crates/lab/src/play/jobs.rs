//! Jobs as a shell starts them, and what they say.
//!
//! Each uses so much processor time and no more, by its own clock: what else happens on a machine slows all work
//! down, of one policy as of the other, and would be taken for the scheduler's. perl is on every Debian. The clock is
//! one that a program reads where it runs: times(2) and getrusage(2) are home's to answer, once every ten milliseconds.

use armento_scenario::Plan;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What perl has itself; a job that is to have less holds nothing.
const PROGRAM_MIB: u64 = 8;
/// Rounds between two looks at the clock, some ten milliseconds.
const ROUNDS: u32 = 200_000;
/// Seconds of a program that is to go on until it is ended.
pub const ENDLESS_S: f64 = 1e9;

/// A program that takes so much memory and uses so much of a processor.
pub fn program(work_s: f64, mib: u64) -> [String; 3] {
    let hold = match mib.saturating_sub(PROGRAM_MIB) {
        0 => String::new(),
        held => format!("$h=chr(7)x({held}<<20);"),
    };
    let clock = "use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);";
    let compute = format!(
        "while(clock_gettime(CLOCK_PROCESS_CPUTIME_ID)<{work_s:.3}){{for($i=0;$i<{ROUNDS};$i++){{}}}}"
    );
    [
        "perl".into(),
        "-e".into(),
        format!("{clock}{hold}{compute}"),
    ]
}

/// The jobs of each home.
pub fn by_home(plan: &Plan) -> BTreeMap<usize, Vec<usize>> {
    let mut homes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, job) in plan.jobs.iter().enumerate() {
        homes.entry(job.home).or_default().push(i);
    }
    homes
}

/// For bash, as a user would: each in the background, then wait. A job that ends well says when, without one program more.
pub fn script(plan: &Plan, jobs: &[usize], dir: &str) -> String {
    let mut text = format!("export ARMENTO_SUMMARY={dir}/summary\n");
    let mut at = 0.0;
    for &i in jobs {
        let job = &plan.jobs[i];
        if job.at_s > at {
            text += &format!("sleep {:.3}\n", job.at_s - at);
            at = job.at_s;
        }
        let [name, flag, code] = program(job.work_s, job.mem_mib);
        text += &format!(
            "{{ armento run {name} {flag} '{code}' && echo {i} $EPOCHREALTIME >> {dir}/report; }} &\n"
        );
    }
    text + "wait\n"
}

/// When each job ended, seconds since `epoch_s`.
pub fn ended(report: &str, epoch_s: f64) -> Vec<f64> {
    let one = |line: &str| {
        let (_, s) = line.split_once(' ')?;
        Some(s.parse::<f64>().ok()? - epoch_s)
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
        let all = ended("3 2.500000\nhalf\n4 3.0\n", 1.0);
        assert_eq!(all, [1.5, 2.0]);
        assert_eq!(moves("{\"moves\": 3}\n{}\n{\"moves\": 2}\n"), 5);
    }
}
