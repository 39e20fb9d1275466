//! The cost of process creation: an exec that is placed, here or elsewhere, compared with a plain exec; a fork at a
//! body.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{Farm, SOON, Stage};
use anyhow::{Context, Result};
use armento_lab::Node;
use std::collections::HashSet;

const PLACED: Bar = Bar::AtMost(5.0);
const FORKED: Bar = Bar::AtMost(1.0);
/// Two for each of the three nodes: with the first one its host starts and its files are transferred.
const FIRST: usize = 6;
/// File on the node where the keeper reports which processes have moved.
const SUMMARY: &str = "/tmp/birth.json";

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    execs(stage, rows)?;
    for (wire, plain) in [("plain", true), ("tls", false)] {
        rows.push(forks(stage, wire, plain)?);
    }
    Ok(())
}

/// Programs are placed round-robin: a third of them stays. The first on each node includes the start of its host and
/// the transfer of its files, which are not measured here.
fn execs(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        deals: true,
        ..Farm::default()
    })?;
    let home = lab.node(1);
    let n = stage.rounds(36, 12).to_string();
    let (mut here, mut there, mut native) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.rounds(4, 2) {
        let plain = stage.native(home, "execs", &[&n]);
        native.extend(begun(plain)?.into_iter().map(|(_, ms)| ms));
        let mut spread = home.command("rm");
        spread.args(["-f", SUMMARY]);
        run::lines(spread, Limit::secs(SOON))?;
        let mut spread = stage.armento(home, &["--spread"], "execs", &[&n]);
        spread.env("ARMENTO_SUMMARY", SUMMARY);
        let all = begun(spread)?;
        let moved = moved(home)?;
        for (pid, ms) in all.into_iter().skip(FIRST) {
            let side = if moved.contains(&pid) {
                &mut there
            } else {
                &mut here
            };
            side.push(ms);
        }
    }
    for (what, with) in [("here", here), ("elsewhere", there)] {
        rows.push(Row::difference(
            "birth",
            format!("exec placed {what} - exec"),
            side(what, with),
            side("exec", native.clone()),
            PLACED,
        ));
    }
    lab.down()
}

fn side(what: &str, values: Vec<f64>) -> Samples {
    Samples {
        what: what.into(),
        unit: "ms",
        values,
    }
}

/// Pids and milliseconds to main.
fn begun(command: std::process::Command) -> Result<Vec<(u64, f64)>> {
    let pair = |l: &String| {
        let (pid, ns) = l.split_once(' ')?;
        Some((pid.parse().ok()?, ns.parse::<f64>().ok()? / 1e6))
    };
    let lines = run::lines(command, Limit::secs(2 * SOON))?;
    let all = lines
        .iter()
        .map(|l| pair(l).with_context(|| format!("expected two numbers, not `{l}`")));
    all.collect()
}

/// Processes that have moved. The keeper reports each at its end, a moment after its parent has been notified.
fn moved(home: &Node) -> Result<HashSet<u64>> {
    let mut c = home.command("sh");
    c.args(["-c", &format!("sleep 0.5; cat {SUMMARY}")]);
    let row = |l: &String| {
        let v: serde_json::Value = serde_json::from_str(l).ok()?;
        (v["moves"].as_u64()? > 0).then(|| v["pid"].as_u64())?
    };
    let lines = run::lines(c, Limit::secs(SOON))?;
    Ok(lines.iter().filter_map(row).collect())
}

fn forks(stage: &Stage, wire: &str, plain: bool) -> Result<Row> {
    let lab = stage.farm(Farm {
        plain,
        no_policy: true,
        ..Farm::default()
    })?;
    let (home, away) = (lab.node(1), lab.node(2));
    let n = stage.rounds(50, 20).to_string();
    let (mut body, mut native) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(4, 2) {
        let there = stage.armento(home, &["--on", &away.name], "forks", &[&n]);
        body.extend(run::numbers(there, Limit::secs(SOON))?);
        let plain = stage.native(away, "forks", &[&n]);
        native.extend(run::numbers(plain, Limit::secs(SOON))?);
    }
    lab.down()?;
    let ms = |ns: Vec<f64>| ns.iter().map(|n| n / 1e6).collect();
    let row = Row::alone(
        "birth",
        format!("fork at the body, {wire}"),
        side("body", ms(body)),
    );
    let row = row.noted(&format!("{} ms", side("native", ms(native))));
    Ok(if plain { row.barred(FORKED) } else { row })
}
