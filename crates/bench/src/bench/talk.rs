//! Two processes that are away and talk over TCP, their connection direct: against plain TCP between the same two nodes, and against the way
//! over home (`--no-direct-sockets`). Round trips of 64 bytes, and bytes one way in writes of 64 KiB.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, migrate};
use anyhow::{Context, Result, bail};
use armento_lab::Lab;

/// Trips and bytes of a batch (`programs/talk.c`), and batches of a run.
const TRIPS: f64 = 4000.0;
const BYTES: f64 = 2000.0 * 65_536.0;
const BATCHES: &str = "3";
const PORT: &str = "7901";
/// A run: a while of talking, and the batches.
const RUN: u64 = 3 * SOON;

/// Microseconds of a trip, and MB/s, of each batch.
#[derive(Default)]
struct Side {
    trips: Vec<f64>,
    rates: Vec<f64>,
}

impl Side {
    /// From nanoseconds: of the trips and of the bytes, in turn.
    fn add(&mut self, numbers: &[f64]) -> Result<()> {
        if numbers.is_empty() || !numbers.len().is_multiple_of(2) {
            bail!("{} numbers came", numbers.len());
        }
        for batch in numbers.chunks_exact(2) {
            self.trips.push(batch[0] / 1e3 / TRIPS);
            self.rates.push(BYTES / 1e6 / (batch[1] / 1e9));
        }
        Ok(())
    }

    fn samples(&self, what: &str, trips: bool) -> Samples {
        Samples {
            what: what.into(),
            unit: if trips { "us" } else { "MB/s" },
            values: if trips { &self.trips } else { &self.rates }.clone(),
        }
    }
}

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    for (wire, plain) in [("plain", true), ("tls", false)] {
        let lab = stage.farm(Farm {
            plain,
            no_policy: true,
            ..Farm::default()
        })?;
        for row in compare(stage, &lab, wire)? {
            rows.push(row);
        }
        lab.down()?;
    }
    Ok(())
}

fn compare(stage: &Stage, lab: &Lab, wire: &str) -> Result<[Row; 4]> {
    let mut serve = Running::start(stage.native(lab.node(3), "talk", &["serve", PORT]))?;
    serve.line(Limit::secs(SOON))?;
    let (mut direct, mut plain, mut home) = (Side::default(), Side::default(), Side::default());
    for _ in 0..stage.rounds(3, 1) {
        away(stage, lab, &[], &mut direct)?;
        let args = ["ping", lab.node(3).addr.as_str(), PORT, BATCHES];
        let ping = stage.native(lab.node(2), "talk", &args);
        plain.add(&run::numbers(ping, Limit::secs(RUN))?)?;
        away(stage, lab, &["--no-direct-sockets"], &mut home)?;
    }
    // The bars are for a wire that costs what plain TCP costs.
    let bar = |bar: Bar| (wire == "plain").then_some(bar);
    let row = |what: &str, other: &Side, name: &str, trips: bool, bar: Option<Bar>| {
        let over = direct.samples("direct", trips);
        let what = format!("direct / {what}, {wire}");
        Row::ratio("talk", what, over, other.samples(name, trips), bar)
    };
    Ok([
        row(
            "TCP, round trip",
            &plain,
            "TCP",
            true,
            bar(Bar::AtMost(1.5)),
        ),
        row("TCP, bytes", &plain, "TCP", false, bar(Bar::AtLeast(0.8))),
        row("over home, round trip", &home, "over home", true, None),
        row("over home, bytes", &home, "over home", false, None),
    ])
}

/// A pair at n2 and n3.
fn away(stage: &Stage, lab: &Lab, options: &[&str], side: &mut Side) -> Result<()> {
    let home = lab.node(1);
    let options = [&["--begin", "here"], options].concat();
    let command = stage.armento(home, &options, "talk", &["pair", BATCHES]);
    let mut pair = Running::start(command)?;
    for to in ["n2", "n3"] {
        let pid = pair.line(Limit::secs(SOON))?;
        let pid = pid.trim().parse().context("a pid")?;
        migrate(home, pid, to, Limit::secs(SOON))?;
    }
    let lines = pair.finish(Limit::secs(RUN))?;
    let numbers: Result<Vec<f64>, _> = lines.iter().map(|l| l.trim().parse()).collect();
    side.add(&numbers.context("a number")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_become_trips_and_rates() {
        let mut side = Side::default();
        side.add(&[4e6, BYTES]).unwrap();
        assert_eq!((side.trips[0], side.rates[0].round()), (1.0, 1000.0));
        assert!(side.add(&[1.0]).is_err());
    }
}
