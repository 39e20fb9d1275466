//! A program that stays home under `armento run` runs as fast as without it.
//!
//! Timed inside the program: the cost of starting is bench `start`.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{Farm, SOON, Stage};
use anyhow::Result;

/// About 0.3 s each on a core of 2025: one scheduler tick is then about 1 %.
const SPIN: &[&str] = &["120000000"];
const CALLS: &[&str] = &["getppid", "1500000", "1"];
const BAR: Bar = Bar::AtMost(1.01);

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm::default())?;
    for (what, program, args) in [
        ("CPU-bound", "spin", SPIN),
        ("syscall-bound", "calls", CALLS),
    ] {
        let mut with = Vec::new();
        let mut without = Vec::new();
        for _ in 0..stage.rounds(15, 5) {
            let home = lab.node(1);
            let under = stage.armento(home, &["--stay"], program, args);
            with.extend(run::numbers(under, Limit::secs(SOON))?);
            let native = stage.native(home, program, args);
            without.extend(run::numbers(native, Limit::secs(SOON))?);
        }
        let side = |what: &str, ns: Vec<f64>| Samples {
            what: what.into(),
            unit: "ms",
            values: ns.iter().map(|n| n / 1e6).collect(),
        };
        rows.push(Row::ratio(
            "home",
            format!("{what}, run --stay / native"),
            side("run --stay", with),
            side("native", without),
            BAR,
        ));
    }
    lab.down()
}
