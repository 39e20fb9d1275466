//! The cost of a local call in a body: a call served by its own node's kernel, under Armento's seccomp filter, against
//! the same call without it. For comparison the least cost of any filter on this kernel: one that accepts every call at
//! once.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{Farm, SOON, Stage};
use anyhow::Result;

/// About 0.1 s a batch.
const N: u64 = 600_000;
const BATCHES: &str = "3";
const BAR: Bar = Bar::AtMost(1.25);

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let (home, away) = (lab.node(1), lab.node(2));
    let n = N.to_string();
    let args = ["getpid", &n, BATCHES];
    let (mut body, mut native, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.rounds(7, 2) {
        let there = stage.armento(home, &["--on", &away.name], "calls", &args);
        body.extend(run::numbers(there, Limit::secs(SOON))?);
        let plain = stage.native(away, "calls", &args);
        native.extend(run::numbers(plain, Limit::secs(SOON))?);
        let filtered = stage.native(away, "calls", &["getpid", &n, BATCHES, "filtered"]);
        empty.extend(run::numbers(filtered, Limit::secs(SOON))?);
    }
    let side = |what: &str, ns: Vec<f64>| Samples {
        what: what.into(),
        unit: "ns",
        values: ns.iter().map(|b| b / N as f64).collect(),
    };
    rows.push(Row::ratio(
        "local",
        "getpid in a body / native",
        side("body", body),
        side("native", native.clone()),
        BAR,
    ));
    rows.push(Row::ratio(
        "local",
        "getpid under an empty filter / native",
        side("empty", empty),
        side("native", native),
        None,
    ));
    lab.down()
}
