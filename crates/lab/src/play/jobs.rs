//! Jobs as a shell starts them, and their reports.
//!
//! Each is `job.c`, which uses so much CPU time and no more, by its own clock: other load of a machine slows all work
//! down, with one policy as with the other, and would be attributed to the scheduler. A job reads a clock that is local
//! to the node: times(2) and getrusage(2) are served by home. And it is small: perl makes 229 file calls before its
//! first line, which would be measured as well.

use anyhow::{Context, Result, bail};
use armento_scenario::{FileCopy, Job, Plan};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const SOURCE: &str = include_str!("job.c");
/// Its path on nodes.
const PATH: &str = "/var/tmp/job";
/// … and as a copy.
const COPY_PATH: &str = "/var/tmp/job-copy";
/// The process names of both, for pkill(1).
pub const NAMES: &str = "job|job-copy";
/// Its file while it is compiled.
const NAME: &str = "job";
/// CPU time of a program that runs until it is killed, seconds.
pub const ENDLESS_S: f64 = 1e9;

/// A job that takes so much memory and uses so much CPU time.
pub fn program(work_s: f64, mib: u64) -> [String; 3] {
    [PATH.into(), format!("{work_s:.3}"), mib.to_string()]
}

/// The words of one job of a plan; a copy has a name of its own, by which its home knows what it does with files.
fn words(job: &Job, i: usize, dir: &str) -> Vec<String> {
    let mut words = program(job.work_s, job.mem_mib).to_vec();
    if let Some(copy) = job.copy {
        words[0] = COPY_PATH.into();
        words.push(format!("{:.3}", copy.wait_s));
        words.push(format!("{dir}/input-{i}"));
        words.push(format!("{dir}/output-{i}"));
    }
    words
}

/// A line for a shell: makes the files that the jobs of a home copy, before they start.
pub fn inputs(plan: &Plan, jobs: &[usize], dir: &str) -> String {
    let of = |i: &usize| Some((*i, plan.jobs[*i].copy?));
    let each = jobs.iter().filter_map(of);
    let one = |(i, copy): (usize, FileCopy)| {
        format!(" && head -c {}M /dev/urandom > {dir}/input-{i}", copy.mib)
    };
    each.map(one).collect()
}

/// Compiles it in a temporary directory below `dir`.
pub fn compile(dir: &Path) -> Result<Vec<u8>> {
    let (source, program) = (dir.join("job.c"), dir.join(NAME));
    fs::write(&source, SOURCE)?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-static", "-o"]).arg(&program).arg(&source);
    let done = cc
        .output()
        .context("there is no C compiler for the jobs\nhint: apt-get install gcc libc6-dev")?;
    if !done.status.success() {
        bail!("cc: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    let bytes = fs::read(&program)?;
    fs::remove_file(source)?;
    fs::remove_file(program)?;
    Ok(bytes)
}

/// `root`: the node's root directory.
pub fn install(program: &[u8], root: &Path) -> Result<()> {
    put(program, &root.join(PATH.trim_start_matches('/')))?;
    let copy = root.join(COPY_PATH.trim_start_matches('/'));
    let linked = std::os::unix::fs::symlink(PATH, &copy);
    linked.with_context(|| format!("{} not made", copy.display()))
}

/// Writes a program.
pub fn put(program: &[u8], path: &Path) -> Result<()> {
    fs::write(path, program).with_context(|| format!("{} not written", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The jobs of each home.
pub fn by_home(plan: &Plan) -> BTreeMap<usize, Vec<usize>> {
    let mut homes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, job) in plan.jobs.iter().enumerate() {
        homes.entry(job.home).or_default().push(i);
    }
    homes
}

/// Lines for bash: each job's number and arguments, at its start time.
pub fn lines(plan: &Plan, dir: &str) -> String {
    let (mut text, mut at) = (String::new(), 0.0);
    for (i, job) in plan.jobs.iter().enumerate() {
        text += &wait_until(job.at_s, &mut at);
        let words = words(job, i, dir).join("\t");
        text += &format!("echo '{i}\t{words}'\n");
    }
    text
}

fn wait_until(at_s: f64, now_s: &mut f64) -> String {
    if at_s <= *now_s {
        return String::new();
    }
    let pause = at_s - std::mem::replace(now_s, at_s);
    format!("sleep {pause:.3}\n")
}

/// Script for bash, as a user would write it: each job in the background, then wait. A successful job reports its end
/// time, without starting another program.
pub fn script(plan: &Plan, jobs: &[usize], dir: &str) -> String {
    let mut text = format!("export ARMENTO_SUMMARY={dir}/summary\n");
    let mut at = 0.0;
    for &i in jobs {
        let job = &plan.jobs[i];
        text += &wait_until(job.at_s, &mut at);
        let words = words(job, i, dir).join(" ");
        text +=
            &format!("{{ armento run {words} && echo {i} $EPOCHREALTIME >> {dir}/report; }} &\n");
    }
    text + "wait\n"
}

/// Which job ended, and when, seconds since `epoch_s`.
pub fn ended(report: &str, epoch_s: f64) -> Vec<(usize, f64)> {
    let one = |line: &str| {
        let (i, s) = line.split_once(' ')?;
        Some((i.parse().ok()?, s.parse::<f64>().ok()? - epoch_s))
    };
    report.lines().filter_map(one).collect()
}

/// Moves of all processes in the keepers' summaries.
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
    fn job_uses_exactly_its_cpu_time() {
        let dir = std::env::temp_dir().join(format!("armento-job-{}", std::process::id()));
        fs::create_dir_all(dir.join("var/tmp")).expect("a folder");
        install(&compile(&dir).expect("compiled"), &dir).expect("installed");
        let [name, args @ ..] = program(0.05, 3);
        let program = dir.join(name.trim_start_matches('/'));
        let done = Command::new(&program).args(&args).status();
        let [from, to] = ["from", "to"].map(|f| dir.join("var").join(f));
        fs::write(&from, vec![7; 300_001]).expect("written");
        let mut copy = Command::new(&program);
        copy.args(&args).arg("0.02").arg(&from).arg(&to);
        assert!(copy.status().expect("it runs").success());
        assert_eq!(fs::read(&to).expect("copied"), vec![7; 300_001]);
        let left = fs::read_dir(&dir).expect("a folder").count();
        fs::remove_dir_all(&dir).expect("gone");
        assert!(done.expect("it runs").success());
        assert_eq!(left, 1, "source and program are gone");
    }

    #[test]
    fn reports_are_read() {
        let all = ended("3 2.500000\nhalf\n4 3.0\n", 1.0);
        assert_eq!(all, [(3, 1.5), (4, 2.0)]);
        assert_eq!(moves("{\"moves\": 3}\n{}\n{\"moves\": 2}\n"), 5);
    }
}
