//! `armento demo`: 24 real encoders on one node alone, then on a farm of four, and the paper's table.
//!
//! It re-runs the switch case of `papers/openmosix-topology` in a lab on this machine, as a user would: everything goes
//! through `armento lab` and `armento run`. Start at [`run`].

mod outcome;
mod paper;
mod picture;
mod report;

use crate::encoders::{self, Interrupted, Mode, Prepared, Topology, Work};
use crate::published::JOBS;
use anyhow::{Context, Result, bail};
use armento_lab::say;
use outcome::{Machine, Outcome};
use std::fs;
use std::path::PathBuf;

/// Run 24 MP3 encoders on one node, then on a farm of four, and compare with the paper.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  armento demo
  armento demo --json demo.json --plot demo.svg
  armento demo --seconds 30          a shorter run, less exact")]
pub struct Args {
    /// Write the raw data as JSON to this file (schema armento-demo/1).
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

/// The exit code: 0 when all checks pass and enough CPU time was spent away from n1, else 1.
pub fn run(args: Args) -> Result<i32> {
    encoders::check_packages()?;
    say!("measuring the encoder on this machine");
    let single_s = f64::from(args.seconds);
    let waiting = armento_lab::Waiting::new("measuring");
    let prepared = encoders::prepare(Mode::Stereo, single_s, encoders::speed(NODES))?;
    drop(waiting);
    armento_lab::write_out(format_args!("{}", report::scale(&prepared.plan)));
    if args.scale_only {
        return Ok(0);
    }
    if !armento_lab::is_root() {
        bail!("raising a lab needs root\nhint: run as root, e.g. sudo make demo");
    }
    let outcome = match perform(&prepared) {
        Ok(o) => o,
        Err(e) => match e.downcast_ref::<Interrupted>() {
            Some(Interrupted(signal)) => {
                eprintln!("armento demo: {e}");
                return Ok(128 + signal);
            }
            None => return Err(e),
        },
    };
    conclude(&args, &outcome)
}

/// Both runs, on one lab.
fn perform(prepared: &Prepared) -> Result<Outcome> {
    let work = Work::new(prepared)?;
    let plan = prepared.plan;
    say!(
        "raising a lab of {NODES} nodes behind a switch of {} Mbit/s",
        plan.rate_mbit
    );
    let stage = work.raise(NODES, Topology::Switch)?;
    say!("one node alone: {JOBS} conversions one after the other on n1");
    let single = work.alone(&stage)?;
    say!("the farm: {JOBS} times `armento run lame …` at once on n1");
    let farm = work.together(&stage)?;
    let nodes = stage.nodes();
    stage.down()?;
    Ok(Outcome {
        schema: outcome::SCHEMA,
        machine: Machine::here(),
        encoder: prepared.encoder,
        plan,
        options: prepared.mode.options(),
        nodes,
        single: single.spans,
        farm: farm.ran.spans,
        single_equal: single.equal,
        farm_equal: farm.ran.equal,
        single_stolen_percent: single.stolen_percent,
        farm_stolen_percent: farm.ran.stolen_percent,
        usage: farm.usage,
        hops: farm.hops,
        samples: farm.samples,
        log: farm.log,
    })
}

/// Table, files, verdict.
fn conclude(args: &Args, o: &Outcome) -> Result<i32> {
    say!();
    if let (Some(table), Some(figures)) = (report::table(o), o.figures()) {
        armento_lab::write_out(format_args!("{table}"));
        if let Some(to) = &args.plot {
            picture::write(o, &figures, to)?;
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
