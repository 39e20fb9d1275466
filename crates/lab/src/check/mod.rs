//! `armento lab check`: measures what a lab was built to be, beside what it should be.
//!
//! Start at [`run`]; `ideal.rs` has the formulas, `measure.rs` the measurements, `table.rs` what is shown.

mod ideal;
mod measure;
mod table;

use crate::lab::Lab;
use anyhow::{Result, bail};
use measure::{Course, SECONDS_RANGE};

pub use ideal::Ideal;
pub use table::{Apart, Cpu, Pair, Table};

pub const HELP: &str = "Measures the processor of each node, then the TCP rate and the round trip of pairs of nodes: all pairs of a lab \
with up to four nodes, else each node with the next and with its server. Medians of three; a verdict needs a machine with little else \
to do. Exits with 1 if anything is more than 3 % off.

Examples:
  armento lab check
  armento lab check --name slow --seconds 3 --json";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "L")]
    name: String,
    /// Duration of one measurement
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    seconds: f64,
    /// Print JSON (schema armento.lab-check/1)
    #[arg(long)]
    json: bool,
}

/// Measures a lab that is up; 1 if it is not what it should be.
pub fn run(args: &Args) -> Result<i32> {
    if !SECONDS_RANGE.contains(&args.seconds) {
        bail!(
            "a measurement takes {} to {} seconds, not {}\nhint: --seconds 2",
            SECONDS_RANGE.start(),
            SECONDS_RANGE.end(),
            args.seconds
        );
    }
    let lab = Lab::find(&args.name)?;
    let table = measure(&lab, args.seconds, |text| eprintln!("{text}"))?;
    match args.json {
        true => say!("{:#}", table.json()),
        false => crate::say::write_out(format_args!("{}", table.render())),
    }
    Ok(i32::from(!table.good()))
}

/// Measures a lab: `seconds` (0.2 to 30) for one measurement, of which there are three of each; `progress` is told what comes
/// next. An error if a node has ended.
pub fn measure(lab: &Lab, seconds: f64, progress: fn(&str)) -> Result<Table> {
    Course {
        lab,
        seconds,
        progress,
    }
    .run()
}
