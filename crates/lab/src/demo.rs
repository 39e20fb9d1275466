//! `armento demo`: 24 real encoders on one node alone, then on a farm of four, and the paper's table.
//!
//! It re-runs the switch case of `papers/openmosix-topology` in a lab on this machine, as a user would: everything goes
//! through `armento lab` and `armento run`. Start at [`run`].

mod figures;
mod outcome;
mod paper;
mod plan;
mod plot;
mod report;
mod scripts;
mod sound;
mod stage;
mod view;
mod watch;

use anyhow::{Context, Result, bail};
use figures::Span;
use outcome::{Machine, Outcome, Sample, Ticks};
use paper::JOBS;
use plan::{Encoder, Plan};
use stage::Stage;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Instant;
use view::View;
use watch::{Seen, Watcher};

/// Run 24 MP3 encoders on one node, then on a farm of four, and compare with the paper.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  armento demo
  armento demo --json demo.json --plot demo.svg
  armento demo --seconds 30          a shorter run, less exact")]
pub struct Args {
    /// Write the raw data as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a picture (SVG) to this file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Duration of the run on one node, seconds; the farm takes about a quarter of it.
    #[arg(long, value_name = "S", default_value_t = 115, value_parser = clap::value_parser!(u32).range(5..=600))]
    pub seconds: u32,
    /// Only measure the encoder and show the scale; needs no privileges.
    #[arg(long)]
    pub scale_only: bool,
}

const NODES: usize = 4;
/// Four nodes of 0.4 fit on two cores and leave a fifth for the machine itself.
const SPEED_MAX: f64 = 0.4;
/// Share of all cores that the nodes may have together.
const CORES_SHARE: f64 = 0.8;
/// A farm run that takes this much longer than the single-node run has failed.
const SLACK: f64 = 2.0;
/// Interval between requests to the daemon for the places of the encoders.
const LOOK_MS: u32 = 500;
/// Directory of the files on n1.
const DIR: &str = "/var/tmp/armento-demo";
/// Last log lines of n1's daemon that a failed run shows.
const LOG_LINES: usize = 20;
/// Keepers append their final summaries here.
const SUMMARY: &str = "summary.jsonl";

/// The exit code: 0 when all checks pass and enough CPU time was spent away from n1, else 1.
pub fn run(args: Args) -> Result<i32> {
    sound::check_packages()?;
    let scratch = sound::Scratch::new()?;
    say!("measuring the encoder on this machine");
    let encoder = sound::measure(&scratch.0)?;
    let plan = Plan::new(
        encoder,
        f64::from(args.seconds),
        speed(crate::sys::affinity().len()),
    );
    crate::say::write_out(format_args!("{}", report::scale(&plan)));
    if args.scale_only {
        return Ok(0);
    }
    if !crate::sys::is_root() {
        bail!("raising a lab needs root\nhint: run as root, e.g. sudo make demo");
    }
    let outcome = match perform(scratch, encoder, plan) {
        Ok(o) => o,
        Err(e) => match e.downcast_ref::<stage::Interrupted>() {
            Some(stage::Interrupted(signal)) => {
                eprintln!("armento demo: {e}");
                return Ok(128 + signal);
            }
            None => return Err(e),
        },
    };
    conclude(&args, &outcome)
}

/// A node's share of a core on a machine with this number of cores.
fn speed(cores: usize) -> f64 {
    (CORES_SHARE * cores as f64 / NODES as f64).min(SPEED_MAX)
}

/// Both runs, on one lab.
fn perform(scratch: sound::Scratch, encoder: Encoder, plan: Plan) -> Result<Outcome> {
    let (wav, mp3) = sound::reference(&scratch.0, &plan)?;
    drop(scratch);
    say!(
        "raising a lab of {NODES} nodes behind a switch of {} Mbit/s",
        plan.rate_mbit
    );
    let stage = Stage::raise(NODES, plan.speed, plan.rate_mbit)?;
    let nodes = stage.nodes();
    let patience = plan.node_s_per_job * JOBS as f64 * SLACK + 30.0;

    lay_out(&stage, &wav)?;
    say!("one node alone: {JOBS} conversions one after the other on n1");
    let ticks = Ticks::now();
    let single = alone(&stage, &nodes, patience)?;
    let single_stolen_percent = ticks.stolen_percent();
    let single_equal = equal(&stage, &mp3)?;

    lay_out(&stage, &wav)?;
    say!("the farm: {JOBS} times `armento run lame …` at once on n1");
    let mut view = View::new(&nodes);
    let ticks = Ticks::now();
    let (farm, samples) = together(&stage, &mut view, patience)?;
    let farm_stolen_percent = ticks.stolen_percent();
    let farm_equal = equal(&stage, &mp3)?;
    let last = last_seen(&samples);
    let summary = fs::read_to_string(file(&stage, SUMMARY)).unwrap_or_default();
    let log = fs::read_to_string(stage.n1(crate::farm::LOG)).unwrap_or_default();
    stage.down()?;

    Ok(Outcome {
        schema: outcome::SCHEMA,
        machine: Machine::here(),
        encoder,
        plan,
        options: sound::OPTIONS,
        nodes,
        single,
        farm,
        single_equal,
        farm_equal,
        single_stolen_percent,
        farm_stolen_percent,
        usage: watch::usage(&summary, &last),
        hops: view.moves,
        samples,
        log: log
            .lines()
            .rev()
            .take(LOG_LINES)
            .map(str::to_owned)
            .collect(),
    })
}

/// Makes a clean directory on n1 with the scripts and 24 copies of the clip.
fn lay_out(stage: &Stage, wav: &[u8]) -> Result<()> {
    let dir = stage.n1(DIR);
    if dir.exists() {
        fs::remove_dir_all(&dir).context("cannot clear the folder on n1")?;
    }
    fs::create_dir_all(&dir).context("cannot make the folder on n1")?;
    for i in 1..=JOBS {
        fs::write(dir.join(format!("audio{i:02}.wav")), wav)?;
    }
    fs::write(dir.join("converti.sh"), scripts::alone())?;
    fs::write(dir.join("converti-om.sh"), scripts::farm())?;
    Ok(())
}

fn file(stage: &Stage, name: &str) -> PathBuf {
    stage.n1(DIR).join(name)
}

fn reported(stage: &Stage) -> Vec<Span> {
    scripts::spans(&fs::read_to_string(file(stage, scripts::REPORT)).unwrap_or_default())
}

fn alone(stage: &Stage, nodes: &[String], patience: f64) -> Result<Vec<Span>> {
    let mut view = View::new(nodes);
    let child = stage.script(DIR, "converti.sh", &[])?;
    follow(child, patience, |at_s| {
        view.alone(at_s, reported(stage).len(), JOBS);
    })?;
    Ok(reported(stage))
}

fn together(stage: &Stage, view: &mut View, patience: f64) -> Result<(Vec<Span>, Vec<Sample>)> {
    let mut watcher = Watcher::new(stage.root());
    let mut samples = Vec::new();
    let summary = format!("ARMENTO_SUMMARY={DIR}/{SUMMARY}");
    let child = stage.script(DIR, "converti-om.sh", &[summary])?;
    follow(child, patience, |at_s| {
        let done = reported(stage).len();
        let encoders = watcher.encoders().unwrap_or_default();
        view.show(at_s, &encoders, done);
        samples.push(Sample { at_s, encoders });
    })?;
    Ok((reported(stage), samples))
}

/// Polls a running script twice a second until it ends.
fn follow(mut child: Child, patience: f64, mut look: impl FnMut(f64)) -> Result<()> {
    let start = Instant::now();
    loop {
        let at_s = start.elapsed().as_secs_f64();
        look(at_s);
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("the script on n1 ended with {status}");
            }
            return Ok(());
        }
        if at_s > patience {
            // The figures show what is missing.
            say!("  not done after {patience:.0} s");
            end(child);
            return Ok(());
        }
        if let Err(e) = stage::pause(LOOK_MS) {
            end(child);
            return Err(e);
        }
    }
}

/// Kills `lab exec`; processes on n1 end with the lab.
fn end(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// How many of the MP3 files on n1 equal the native one, byte for byte.
fn equal(stage: &Stage, mp3: &[u8]) -> Result<usize> {
    let same = |i: &usize| {
        let path = file(stage, &format!("audio{i:02}.mp3"));
        fs::read(path).is_ok_and(|bytes| bytes == mp3)
    };
    Ok((1..=JOBS).filter(same).count())
}

fn last_seen(samples: &[Sample]) -> BTreeMap<usize, Seen> {
    let all = samples.iter().flat_map(|s| &s.encoders);
    all.map(|e| (e.job, e.clone())).collect()
}

/// Table, files, verdict.
fn conclude(args: &Args, o: &Outcome) -> Result<i32> {
    say!();
    if let (Some(table), Some(figures)) = (report::table(o), o.figures()) {
        crate::say::write_out(format_args!("{table}"));
        if let Some(to) = &args.plot {
            plot::write(o, &figures, to)?;
            say!("plot: {}", to.display());
        }
    }
    if let Some(to) = &args.json {
        let mut data = serde_json::to_value(o)?;
        data["figures"] = serde_json::to_value(o.figures())?;
        fs::write(to, format!("{data:#}\n"))
            .with_context(|| format!("cannot write {}", to.display()))?;
        say!("data: {}", to.display());
    }
    let bad = o.failures(JOBS);
    for b in &bad {
        eprintln!("armento demo: {b}");
    }
    if !bad.is_empty() {
        for (reason, times) in o.reasons() {
            eprintln!("armento demo: seen {times} times: {reason}");
        }
        for stuck in o.unfinished() {
            eprintln!("armento demo: {stuck}");
        }
        for line in o.log.iter().rev() {
            eprintln!("  n1: {line}");
        }
    }
    if bad.is_empty() {
        say!(
            "\nall {JOBS} MP3 files equal the native one; {:.1} % of the CPU time was spent away",
            o.away_percent()
        );
    }
    Ok(i32::from(!bad.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_leave_room_for_the_machine() {
        let check =
            |cores: usize, want: f64| assert!((speed(cores) - want).abs() < 1e-9, "{cores}");
        check(1, 0.2);
        check(2, 0.4);
        check(64, 0.4);
    }
}
