//! Runs the decoders of `fuzz/` under libFuzzer, each for its share of the time.
//!
//! A stable compiler suffices: `fuzz/rustc.sh` instruments Armento's crates for coverage. New inputs of libFuzzer are
//! kept below the build directory and used again by the next run; an input that caused a failure belongs into
//! `fuzz/corpus/`.

use crate::count::Count;
use crate::{ci, root};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Seconds of a run on request, in all.
const SECONDS: u32 = 60;
/// One input takes microseconds; one that takes this long hangs, seconds.
const INPUT_S_MAX: u32 = 10;
/// Each target is limited to some MiB; libFuzzer itself and its corpus take the rest.
const RSS_MB_MAX: u32 = 1024;

/// `cargo xtask fuzz [--seconds N] [TARGET…]`.
pub fn command(args: &[String]) -> Result<bool> {
    let (mut seconds, mut named) = (SECONDS, Vec::new());
    let mut args = args.iter();
    while let Some(a) = args.next() {
        match a.as_str() {
            "--seconds" => {
                let n = args.next().context("--seconds takes a number")?;
                seconds = n.parse().context("--seconds takes a number")?;
            }
            name => named.push(name.to_owned()),
        }
    }
    let all = targets()?;
    if let Some(odd) = named.iter().find(|n| !all.contains(n)) {
        bail!("no target `{odd}`; there are: {}", all.join(", "));
    }
    let chosen = if named.is_empty() { all } else { named };
    let mut sum = Count::default();
    let good = run(&mut sum, &chosen, seconds)?;
    println!("{sum}");
    Ok(good)
}

/// As a step of `ci`: every target.
pub fn step(sum: &mut Count, seconds: u32) -> Result<bool> {
    run(sum, &targets()?, seconds)
}

/// Names of the targets: those of their files.
fn targets() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        all.extend(stem);
    }
    all.sort();
    Ok(all)
}

/// `seconds` in all.
fn run(sum: &mut Count, targets: &[String], seconds: u32) -> Result<bool> {
    // libFuzzer is C++ and comes as source.
    let there = |c: &str| ci::quiet(Command::new(c).arg("--version"));
    if !there("c++") && !there("g++") {
        println!("fuzz: skipped: no C++ compiler");
        sum.skipped += 1;
        return Ok(true);
    }
    if !build()? {
        sum.failed += 1;
        return Ok(false);
    }
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.min(targets.len()).max(1);
    let each = (seconds as usize * jobs).div_ceil(targets.len().max(1));
    let (queue, found) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
    thread::scope(|s| {
        for _ in 0..jobs {
            s.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(name) = next else { return };
                    let done = one(name, each.max(1));
                    found
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(done);
                }
            });
        }
    });
    let mut good = true;
    for done in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match done? {
            None => sum.passed += 1,
            Some(why) => {
                println!("fuzz: FAILED: {why}");
                (good, sum.failed) = (false, sum.failed + 1);
            }
        }
    }
    Ok(good)
}

/// Builds the targets, with Armento's crates instrumented; takes half a minute where the rest is built.
fn build() -> Result<bool> {
    let words = "build --release --locked --package armento-fuzz --features libfuzzer --bins";
    let status = Command::new("cargo")
        .args(words.split(' '))
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/rustc.sh"))
        .env("CARGO_TERM_QUIET", "true")
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .context("cargo build did not start")?;
    Ok(status.success())
}

/// Runs one target; returns what failed and how to repeat it.
fn one(name: &str, seconds: usize) -> Result<Option<String>> {
    let kept = ci::target().join("fuzz");
    let found = kept.join(name);
    fs::create_dir_all(&found).with_context(|| format!("{} not made", found.display()))?;
    let program = ci::target().join(format!("release/fuzz-{name}"));
    let log = kept.join(format!("{name}.log"));
    let mut c = Command::new(&program);
    c.arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_S_MAX}"))
        .arg(format!("-rss_limit_mb={RSS_MB_MAX}"))
        .arg(format!("-artifact_prefix={}/{name}-", kept.display()));
    let status = c
        .arg(&found)
        .arg(root().join("fuzz/corpus").join(name))
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).with_context(|| format!("{} not made", log.display()))?)
        .status()
        .with_context(|| format!("{} did not start", program.display()))?;
    Ok((!status.success()).then(|| describe_failure(name, &program, &log)))
}

/// The first line of the failure, and the command that repeats it.
fn describe_failure(name: &str, program: &Path, log: &PathBuf) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let says =
        |l: &&str| l.contains("panicked") || l.contains("ERROR:") || l.contains("allocation of");
    let mut lines = text.lines().skip_while(|l| !says(l));
    let what: Vec<&str> = lines.by_ref().take(2).collect();
    let input = text
        .lines()
        .find_map(|l| l.split_once("Test unit written to "));
    format!(
        "{name}: {}; repeat: {} {} (log: {})",
        what.join(" "),
        program.display(),
        input.map_or("?", |(_, path)| path),
        log.display()
    )
}
