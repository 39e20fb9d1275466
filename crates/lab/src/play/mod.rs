//! `armento lab play`: a scenario on farms of this machine, with one policy after the other.
//!
//! Start at [`run`]; `stage.rs` runs it, `table.rs` compares with the limit that no scheduler beats.

mod jobs;
mod stage;
mod tasks;
mod timeline;
mod way;

use anyhow::{Result, anyhow};
use armento_scenario::{Row, Scenario, Table};
use std::path::PathBuf;

pub use jobs::{compile, ended};
pub use stage::Stage;
pub use way::Way;

pub const HELP: &str = "Examples:
  armento lab play scenarios/four-equal.toml
  armento lab play scenarios/paper-equal.toml --scale 0.1 --jobs 17,25,47 --policy armento,mosix,static,parallel
  armento lab play scenarios/paper-equal.toml --scale 0.1 --jobs 17 --runs 1 --policy pvm,pvm-armento
  armento lab play scenarios/four-equal.toml --nodes 1,2,3,4 --jobs 24 --policy armento
  armento lab play scenarios/four-mixed.toml --runs 5 --json

Each run is on a farm of its own; policies take turns, so that what else happens on the machine meets all of them.";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario, a TOML file
    file: PathBuf,
    /// Numbers of jobs [default: the scenario's series]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    jobs: Vec<usize>,
    /// Numbers of nodes, where all are equal [default: the scenario's]
    #[arg(long, value_delimiter = ',', value_name = "M")]
    nodes: Vec<usize>,
    /// Policies: armento, mosix, static, none, parallel, pvm, pvm-armento, pvm-mosix
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "armento,static",
        value_name = "P"
    )]
    policy: Vec<Way>,
    /// Scale the length of jobs by this factor
    #[arg(long, default_value_t = 1.0, value_name = "F")]
    scale: f64,
    /// Number of runs; medians are shown
    #[arg(long, default_value_t = 3, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seed of random lengths and start times
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Print JSON (schema armento.played/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let wrong = |e: String| {
        let file = args.file.display();
        anyhow!("{file}: {e}\nhint: the manual page of `armento lab` describes scenarios")
    };
    let scenario = Scenario::load(&args.file, args.scale).map_err(wrong)?;
    let sizes = scenario.sizes(&args.nodes).map_err(wrong)?;
    let series = scenario.numbers(&args.jobs).map_err(wrong)?;
    let mut table = Table::new(&scenario);
    for run in 0..args.runs {
        let all = sizes
            .iter()
            .flat_map(|s| args.policy.iter().map(move |way| (s, way)));
        for (size, way) in all {
            table.rows.extend(play(size, way, run, &series, args)?);
        }
    }
    table.beside(&sizes);
    match args.json {
        true => say!("{:#}", table.json()),
        false => crate::say::write_out(format_args!("{}", table.render())),
    }
    Ok(0)
}

/// The whole series on one farm.
fn play(size: &Scenario, way: &Way, run: u32, series: &[usize], args: &Args) -> Result<Vec<Row>> {
    let stage = Stage::raise(&size.plan(series[0], args.seed), way)?;
    let mut rows = Vec::new();
    for &n in series {
        let plan = size.plan(n, args.seed);
        let played = stage.play(&plan)?;
        let row = Row::of(n, &way.to_string(), run, &plan, &played);
        if !args.json {
            say!("{row}");
        }
        rows.push(row);
    }
    stage.down()?;
    Ok(rows)
}
