//! Time that `armento run` adds to the start and the end of a program.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{Farm, SOON, Stage};
use anyhow::{Context, Result};
use armento_lab::Lab;

/// No new round begins after this.
const SECONDS: &str = "10";
const BAR: Bar = Bar::AtMost(15.0);

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm::default())?;
    // The first is placed by the farm, as a user's program would be; the second shows how much of the time is the way
    // out and back.
    for command in ["run true", "run --stay true"] {
        rows.push(one(stage, &lab, command)?);
    }
    lab.down()
}

fn one(stage: &Stage, lab: &Lab, command: &str) -> Result<Row> {
    let rounds = stage.rounds(101, 21).to_string();
    let mut args = vec![&rounds[..], SECONDS, "armento"];
    args.extend(command.split(' '));
    args.extend(["--", "true"]);
    let pairs = stage.native(lab.node(1), "pair", &args);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for line in run::lines(pairs, Limit::secs(2 * SOON))? {
        let (a, b) = pair(&line).with_context(|| format!("expected two numbers, not `{line}`"))?;
        with.push(a);
        without.push(b);
    }
    let side = |what: &str, values| Samples {
        what: what.into(),
        unit: "ms",
        values,
    };
    Ok(Row::difference(
        "start",
        format!("armento {command} - true"),
        side(command, with),
        side("true", without),
        BAR,
    ))
}

/// Nanoseconds to milliseconds.
fn pair(line: &str) -> Option<(f64, f64)> {
    let (a, b) = line.split_once(' ')?;
    Some((a.parse::<f64>().ok()? / 1e6, b.parse::<f64>().ok()? / 1e6))
}
