//! Jobs as a shell starts them, and what they say.
//!
//! They are programs that every Debian has: mawk computes, perl holds memory meanwhile.

use anyhow::{Context, Result, bail};
use armento_scenario::Plan;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What perl has itself; a job that is to have less holds nothing.
const PROGRAM_MIB: u64 = 8;
/// One look at the processor's speed, rounds …
const LOOK: u64 = 10_000_000;
/// … of which the quickest counts: all else that happens on a machine only slows it down.
const LOOKS: usize = 5;
/// Endless.
pub const ENDLESS: u64 = 1 << 53;

/// A program that takes so much memory and computes so many rounds.
pub fn program(rounds: u64, mib: u64) -> [String; 3] {
    let held = mib.saturating_sub(PROGRAM_MIB);
    let light = format!("BEGIN{{while(i++<{rounds})x+=i}}");
    let heavy = format!("$h=chr(7)x({held}<<20);for($i=0;$i<{rounds};$i++){{$x+=$i}}");
    match held {
        0 => ["mawk".into(), "--".into(), light],
        _ => ["perl".into(), "-e".into(), heavy],
    }
}

/// Rounds that one processor of this machine, undisturbed, does in a second.
pub struct Pace {
    light: f64,
    heavy: f64,
}

impl Pace {
    pub fn measured() -> Result<Pace> {
        Ok(Pace {
            light: pace(0)?,
            heavy: pace(PROGRAM_MIB + 1)?,
        })
    }

    /// Rounds of a job.
    pub fn rounds(&self, work_s: f64, mib: u64) -> u64 {
        let pace = if mib > PROGRAM_MIB {
            self.heavy
        } else {
            self.light
        };
        (work_s * pace) as u64
    }
}

fn pace(mib: u64) -> Result<f64> {
    let took = |rounds: u64| -> Result<f64> {
        let [name, args @ ..] = program(rounds, mib);
        let begun = Instant::now();
        let done = Command::new(&name).args(args).stdin(Stdio::null()).status();
        let done =
            done.with_context(|| format!("{name} is not installed\nhint: apt-get install {name}"))?;
        if !done.success() {
            bail!("{name} ends with {done}");
        }
        Ok(begun.elapsed().as_secs_f64())
    };
    // What it takes to start is not its pace.
    let (mut whole, mut start) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..LOOKS {
        whole = whole.min(took(LOOK)?);
        start = start.min(took(1)?);
    }
    Ok(LOOK as f64 / (whole - start).max(f64::MIN_POSITIVE))
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
pub fn script(plan: &Plan, jobs: &[usize], pace: &Pace, dir: &str) -> String {
    let mut text = format!("export ARMENTO_SUMMARY={dir}/summary\n");
    let mut at = 0.0;
    for &i in jobs {
        let job = &plan.jobs[i];
        if job.at_s > at {
            text += &format!("sleep {:.3}\n", job.at_s - at);
            at = job.at_s;
        }
        let [name, flag, code] = program(pace.rounds(job.work_s, job.mem_mib), job.mem_mib);
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
