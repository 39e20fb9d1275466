//! `make -j12` of a C library on four slow nodes, against the same on one of them.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{SOON, Stage};
use anyhow::{Context, Result};
use armento_lab::sources::{MAKEFILE, zstd};
use armento_lab::{Lab, Link, Spec};
use std::time::Instant;

const NODES: usize = 4;
const SPEED: f64 = 0.25;
/// The limit is 0.25.
const BAR: Bar = Bar::AtMost(0.40);
/// One build takes 100 s on one node.
const BUILD: u64 = 600;
/// Where it is built, in the first node alone.
const PLACE: &str = "/opt/make";

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let sources = zstd()?;
    let spec = Spec {
        name: format!("bench-{}", std::process::id()),
        nodes: NODES,
        speeds: vec![SPEED],
        link: Link::None,
        exe: Some(stage.armento.clone()),
        ..Spec::default()
    };
    let lab = Lab::up(spec)?;
    let prepare = "mkdir -p \"$1\" && cp -r \"$2\" \"$1/lib\" && printf %s \"$3\" >\"$1/Makefile\"";
    let sources = sources.to_string_lossy().into_owned();
    let mut c = lab.node(1).command("sh");
    c.args(["-c", prepare, "sh", PLACE, &sources, MAKEFILE]);
    run::lines(c, Limit::secs(SOON)).context("the sources could not be copied")?;
    let (mut spread, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(3, 1) {
        alone.push(build(&lab, "")?);
        spread.push(build(&lab, "armento run --spread ")?);
    }
    lab.down()?;
    let side = |what: &str, values| Samples {
        what: what.into(),
        unit: "s",
        values,
    };
    rows.push(Row::ratio(
        "make",
        format!("make -j12 of zstd's library, {NODES} nodes of {SPEED} / one of them"),
        side("run --spread", spread),
        side("native", alone),
        BAR,
    ));
    Ok(())
}

/// Seconds of one build.
fn build(lab: &Lab, how: &str) -> Result<f64> {
    let shell = |script: String| {
        let mut c = lab.node(1).command("sh");
        c.args(["-c", &script]);
        c
    };
    run::lines(shell(format!("rm -rf {PLACE}/obj")), Limit::secs(SOON))?;
    let begun = Instant::now();
    run::lines(
        shell(format!("cd {PLACE} && exec {how}make -s -j12")),
        Limit::secs(BUILD),
    )?;
    Ok(begun.elapsed().as_secs_f64())
}
