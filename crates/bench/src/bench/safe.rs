//! What it costs to keep a program safe, and how soon it goes on when its node is lost; checkpoint files.
//!
//! The programs run at n2, their home is n1, on another processor where there are two.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, USER};
use crate::sys;
use anyhow::{Context, Result, bail};
use armento_lab::Lab;
use serde_json::Value;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A run of 6,500 units takes 65 s: with a checkpoint every 30 s three are made.
const MIB: &str = "1024";
const UNITS: (&str, &str) = ("6500", "1200");
const COMPUTES: u64 = 200;
/// Seconds of noise that are encoded: half a minute of a processor with the slowest algorithms of lame(1).
const AUDIO: (&str, &str) = ("420", "60");
const ENCODES: u64 = 300;
/// Where the sound is in the first node.
const SOUND: &str = "/tmp/sound.wav";
/// A program of 1 GiB that writes 5 % of it in a second.
const RATE: &str = "53687091";
/// Longest wait for a checkpoint of 1 GiB.
const CHECKPOINT: u64 = 60;
/// As a power cut would: without a word.
const KILL_HOSTS: &str = "pkill -9 -f '^armento host'";
/// A heap of small objects with little that repeats: dictionaries of numbers and texts.
const HEAP: &str = "import random, signal, os; random.seed(1); d = {i: [random.random(), str(random.getrandbits(64))] for i in \
                    range(700000)}; print(os.getpid(), flush=True); signal.pause()";

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    stage.warm(&lab, 3072, &[])?;
    let wanted = |name: &str| name.contains(&stage.only);
    if wanted("compute") {
        rows.push(compute(stage, &lab)?);
    }
    if wanted("encode") {
        rows.push(encode(stage, &lab)?);
    }
    if wanted("lost") {
        rows.push(lost(stage, &lab)?);
    }
    if wanted("file") {
        rows.extend(files(stage, &lab)?);
    }
    lab.down()
}

fn side(what: &str, unit: &'static str, values: Vec<f64>) -> Samples {
    Samples {
        what: what.into(),
        unit,
        values,
    }
}

/// 1 GiB, 5 % a second.
fn compute(stage: &Stage, lab: &Lab) -> Result<Row> {
    let calibrate = stage.native(lab.node(2), "dirty", &["calibrate"]);
    let iterations = run::lines(calibrate, Limit::secs(SOON))?.concat();
    let units = if stage.quick { UNITS.1 } else { UNITS.0 };
    let args = [MIB, iterations.trim(), units];
    let once = |options: &[&str]| -> Result<f64> {
        let command = stage.armento(lab.node(1), options, "dirty", &args);
        let took = run::numbers(command, Limit::secs(COMPUTES))?;
        Ok(took.first().context("no time was printed")? / 1e9)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(3, 1) {
        without.push(once(&["--on", "n2"])?);
        with.push(once(&["--on", "n2", "--safe=30"])?);
    }
    Ok(Row::ratio(
        "safe",
        "computing, 1 GiB, 5 %/s: --safe=30",
        side("safe", "s", with),
        side("without", "s", without),
        Bar::AtMost(1.03),
    ))
}

/// An encoder reads and writes through its home.
fn encode(stage: &Stage, lab: &Lab) -> Result<Row> {
    let seconds = if stage.quick { AUDIO.1 } else { AUDIO.0 };
    let make = format!("sox -n -r 44100 -c 2 {SOUND} synth {seconds} pinknoise");
    run::lines(shell(lab, 1, &make), Limit::secs(ENCODES)).context("sox made no sound")?;
    let once = |options: &[&str]| -> Result<f64> {
        let begun = Instant::now();
        let mut c = lab.node(1).command_as(USER, "armento");
        c.args(["run", "--on", "n2"]).args(options);
        c.args(["lame", "--quiet", "-q", "0", SOUND, "/tmp/a.mp3"]);
        run::lines(c, Limit::secs(ENCODES))?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(3, 1) {
        without.push(once(&[])?);
        with.push(once(&["--safe=10"])?);
    }
    Ok(Row::ratio(
        "safe",
        "encoder: --safe=10",
        side("safe", "s", with),
        side("without", "s", without),
        Bar::AtMost(1.10),
    ))
}

/// From the kill of its host to its first step elsewhere: the loss is detected at once, by the reset of its connection.
fn lost(stage: &Stage, lab: &Lab) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..stage.rounds(3, 1) {
        let options = ["--on", "n2", "--safe=2"];
        let hold = stage.armento(lab.node(1), &options, "hold", &[MIB, RATE, "spin"]);
        let mut hold = Running::start(hold)?;
        hold.line(Limit::secs(SOON))?;
        checkpoint_after(lab, sys::now_ns())?;
        sleep(Duration::from_secs(1));
        let killed = sys::now_ns();
        run::lines(shell(lab, 2, KILL_HOSTS), Limit::secs(SOON))?;
        sleep(Duration::from_secs(8));
        hold.signal(libc::SIGUSR1)?;
        let gaps = hold.finish(Limit::secs(CHECKPOINT))?;
        times.push(resumed(&gaps, killed)? / 1e9);
    }
    let time = side("to its first step", "s", times);
    Ok(Row::alone("safe", "node killed, 1 GiB: goes on after", time).barred(Bar::AtMost(3.0)))
}

/// Waits for a checkpoint that was begun after `since`, as `armento ps` tells its age.
fn checkpoint_after(lab: &Lab, since: u64) -> Result<()> {
    let limit = Limit::secs(CHECKPOINT);
    while !limit.is_over() {
        let said = run::lines(shell(lab, 1, "armento ps --json"), Limit::secs(SOON))?;
        let doc: Value = serde_json::from_str(&said.concat())?;
        let ages = doc["procs"].as_array().into_iter().flatten();
        let mut ages = ages.filter_map(|p| p["safe"]["age_ms"].as_u64());
        if ages.any(|age| age * 1_000_000 < sys::now_ns() - since) {
            return Ok(());
        }
        sleep(Duration::from_millis(100));
    }
    bail!("it has no checkpoint")
}

/// Milliseconds of the longest gap that began in this time, of lines `START LENGTH`.
fn longest(gaps: &[String], (begun, ended): (u64, u64)) -> f64 {
    let all = gaps.iter().filter_map(|l| start_and_length(l));
    let within = all.filter(|(start, _)| (begun..ended).contains(start));
    within.map(|(_, length)| length).max().unwrap_or(0) as f64 / 1e6
}

/// The two numbers of such a line.
fn start_and_length(line: &str) -> Option<(u64, u64)> {
    let (start, length) = line.split_once(' ')?;
    Some((start.parse().ok()?, length.parse().ok()?))
}

/// Nanoseconds from `killed` to the end of the gap that holds this moment, of lines `START LENGTH`.
fn resumed(gaps: &[String], killed: u64) -> Result<f64> {
    let mut all = gaps.iter().filter_map(|l| start_and_length(l));
    let over = all.find(|(start, length)| *start <= killed && killed < start + length);
    let (start, length) = over.context("it did not stand still")?;
    Ok((start + length - killed) as f64)
}

/// The pause of a checkpoint to a file, at home and away; the size of the file of a Python heap.
fn files(stage: &Stage, lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (what, options) in [("home", ["--begin", "here"]), ("away", ["--on", "n2"])] {
        let (mut pauses, mut gaps) = (Vec::new(), Vec::new());
        for _ in 0..stage.rounds(3, 1) {
            let hold = stage.armento(lab.node(1), &options, "hold", &[MIB, RATE, "spin"]);
            let mut hold = Running::start(hold)?;
            let ready = hold.line(Limit::secs(SOON))?;
            let pid = ready.strip_prefix("ready ").context("a pid")?;
            let begun = sys::now_ns();
            let done = written(lab, pid)?;
            let ended = sys::now_ns();
            pauses.push(done["pause_us"].as_f64().context("a pause")? / 1e3);
            hold.signal(libc::SIGUSR1)?;
            gaps.push(longest(
                &hold.finish(Limit::secs(CHECKPOINT))?,
                (begun, ended),
            ));
        }
        let name = format!("checkpoint to a file, 1 GiB, {what}");
        let row = Row::alone("safe", name, side("pause", "ms", pauses));
        rows.push(row.barred(Bar::AtMost(20.0)));
        let name = format!("… longest gap that it saw, {what}");
        rows.push(Row::alone("safe", name, side("gap", "ms", gaps)));
    }
    let mut c = lab.node(1).command_as(USER, "armento");
    c.args(["run", "--begin", "here", "python3", "-c", HEAP]);
    let mut heap = Running::start(c)?;
    let pid = heap.line(Limit::secs(SOON))?;
    let done = written(lab, pid.trim())?;
    let bytes = |key: &str| done[key].as_f64().context("a size");
    rows.push(Row::ratio(
        "safe",
        "file of a Python heap / its memory",
        side("file", "MB", vec![bytes("file_bytes")? / 1e6]),
        side("memory", "MB", vec![bytes("memory_bytes")? / 1e6]),
        Bar::AtMost(0.6),
    ));
    Ok(rows)
}

/// A checkpoint of the process, into a file of the first node.
fn written(lab: &Lab, pid: &str) -> Result<Value> {
    let write = format!("armento checkpoint {pid} /tmp/file --overwrite --json");
    let said = run::lines(shell(lab, 1, &write), Limit::secs(CHECKPOINT))?;
    Ok(serde_json::from_str(&said.concat())?)
}

fn shell(lab: &Lab, node: usize, script: &str) -> Command {
    let mut c = lab.node(node).command("sh");
    c.args(["-c", script]);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_around_the_kill_counts() {
        let gaps = ["100 50", "900 300", "2000 10", "lost 0"].map(String::from);
        assert_eq!(resumed(&gaps, 1000).unwrap(), 200.0);
        assert!(resumed(&gaps, 1500).is_err());
        assert_eq!(longest(&gaps, (0, 1000)), 0.0003);
    }
}
