//! `armento lab play`: a scenario on farms of this machine, by one policy after the other.
//!
//! Start at [`run`]; `stage.rs` plays, `table.rs` compares with the limit that no scheduler beats.

mod jobs;
mod stage;
mod timeline;
mod way;

use anyhow::{Result, anyhow};
use armento_scenario::{Row, Scenario, Table};
use stage::Stage;
use std::path::PathBuf;
use way::Way;

pub const HELP: &str = "Examples:
  armento lab play scenarios/four-equal.toml
  armento lab play scenarios/paper-equal.toml --scale 0.1 --jobs 17,25,47 --policy armento,mosix,static,parallel
  armento lab play scenarios/four-mixed.toml --runs 5 --json

Each run is on a farm of its own; policies take turns, so that what else happens on the machine meets all of them.";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario, a TOML file
    file: PathBuf,
    /// Numbers of jobs [default: the scenario's series]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    jobs: Vec<usize>,
    /// Who decides: armento, mosix, static, none, parallel
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "armento,static",
        value_name = "P"
    )]
    policy: Vec<Way>,
    /// Jobs of this part of their length
    #[arg(long, default_value_t = 1.0, value_name = "F")]
    scale: f64,
    /// How often; medians are shown
    #[arg(long, default_value_t = 3, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Of lengths and starts that are drawn
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Print JSON (schema armento.played/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let scenario = Scenario::load(&args.file, args.scale).map_err(|e| {
        let file = args.file.display();
        anyhow!("{file}: {e}\nhint: the manual page of `armento lab` shows what a scenario says")
    })?;
    let series = scenario.numbers(&args.jobs);
    let mut table = Table::new(&scenario);
    for run in 0..args.runs {
        for way in &args.policy {
            let plan = scenario.plan(series[0], args.seed);
            let stage = Stage::raise(&plan, way)?;
            for &n in &series {
                let plan = scenario.plan(n, args.seed);
                let played = stage.play(&plan)?;
                let row = Row::of(n, &way.to_string(), run, &plan, &played);
                if !args.json {
                    println!("{row}");
                }
                table.rows.push(row);
            }
            stage.down()?;
        }
    }
    match args.json {
        true => println!("{:#}", table.json()),
        false => print!("{}", table.render()),
    }
    Ok(0)
}
