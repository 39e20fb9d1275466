//! `armento sim`.

use crate::out::{Failure, say, say_json};
use armento_balance::Policy;
use armento_scenario::{Row, Scenario, Table};
use armento_sim::{Prices, play};
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento sim scenarios/paper-equal.toml
  armento sim scenarios/four-mixed.toml --policy armento,mosix,static --jobs 5,9
  armento sim scenarios/paper-equal.toml --nodes 1,2,3,4,5,6,7,8 --jobs 24
  armento sim scenarios/paper-equal.toml --move-ms 1.5 --json

The real load vectors, decisions and admission of every node, in virtual time; `armento lab play` runs the same file
on farms of this machine. The same seed gives the same outcome.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The scenario, a TOML file
    file: PathBuf,
    /// Numbers of jobs [default: the scenario's series]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    jobs: Vec<usize>,
    /// Numbers of nodes, where all are equal [default: the scenario's]
    #[arg(long, value_delimiter = ',', value_name = "M")]
    nodes: Vec<usize>,
    /// Policies: armento, mosix, static, none
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "armento,static",
        value_name = "P"
    )]
    policy: Vec<Policy>,
    /// Scale the length of jobs by this factor
    #[arg(long, default_value_t = 1.0, value_name = "F")]
    scale: f64,
    /// Number of runs, each with the next seed; medians are shown
    #[arg(long, default_value_t = 1, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Work of each end of a move, milliseconds of a standard processor
    #[arg(long, default_value_t = 3.0, value_name = "MS")]
    move_ms: f64,
    /// Work of each end of the first move of a process to a node
    #[arg(long, default_value_t = 7.0, value_name = "MS")]
    first_ms: f64,
    /// Work of a start at its home
    #[arg(long, default_value_t = 0.0, value_name = "MS")]
    start_ms: f64,
    /// CPU use of each daemon, thousandths of a standard processor
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1000))]
    rest: u64,
    /// Print JSON (schema armento.played/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let wrong = |e: String| Failure {
        message: format!("{}: {e}", args.file.display()),
        hint: "the manual page of `armento lab` describes scenarios".into(),
    };
    let scenario = Scenario::load(&args.file, args.scale).map_err(wrong)?;
    let sizes = scenario.sizes(&args.nodes).map_err(wrong)?;
    let numbers = scenario.numbers(&args.jobs).map_err(wrong)?;
    let prices = Prices {
        end_ns: (args.move_ms.clamp(0.0, 1e6) * 1e6) as u64,
        first_ns: (args.first_ms.clamp(0.0, 1e6) * 1e6) as u64,
        start_ns: (args.start_ms.clamp(0.0, 1e6) * 1e6) as u64,
        rest_milli: args.rest,
        ..Prices::default()
    };
    let mut table = Table::new(&scenario);
    for run in 0..args.runs {
        let seed = args.seed + u64::from(run);
        let all = sizes
            .iter()
            .flat_map(|s| numbers.iter().map(move |n| (s, *n)));
        for (size, n) in all {
            let plan = size.plan(n, seed);
            for policy in &args.policy {
                let played = play(&plan, policy, prices, seed);
                let row = Row::of(n, policy.name(), run, &plan, &played);
                if !args.json {
                    say(&format!("{row}\n"));
                }
                table.rows.push(row);
            }
        }
    }
    table.beside(&sizes);
    match args.json {
        true => say_json("armento.played/1", table.json()),
        false => say(&table.render()),
    }
    Ok(0)
}
