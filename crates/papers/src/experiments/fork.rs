//! One program, and the same work as four processes.

use super::play::{LIMIT, farm_fits, lab, share};
use crate::chapter::{Cell, Chapter, Table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_scenario::Scenario;
use serde_json::Value;

/// Processor time of the whole work on one node at scale 1, seconds. The paper names no time: so that a block takes some
/// seconds at the default scale.
const WHOLE_S: f64 = 400.0;

pub static EXPERIMENT: Experiment = Experiment {
    id: "fork",
    title: "A computation as one process and as four",
    paper: "P",
    place: "example of square roots in four blocks",
    requirements: &["R-053"],
    shows: "A program that does not fork gains nothing from a farm, however many nodes it has; the same work in four processes takes a quarter of the time.",
    emulation: "lab: one program that computes for so much processor time, or four that share it, started at once on n1; policy `armento`",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=16,
    scale: 0.1,
    scale_range: 0.01..=1.0,
    minutes: 1.5,
    tools: &[
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["B-08"],
    fits: farm_fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Name of the run and its values, number of processes. PAPER(P, forking): 1 to 10^9 in blocks of 250 millions.
const RUNS: [(&str, usize); 2] = [("one", 1), ("four", 4)];

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, processes): (&str, usize)| Run {
        name: name.to_owned(),
        expect_s: WHOLE_S * setting.scale / processes.min(setting.nodes) as f64 + 12.0,
    };
    RUNS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    let known = RUNS.iter().find(|(name, _)| *name == run.name);
    let (name, processes) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let seconds = WHOLE_S * setting.scale / *processes as f64;
    let text = format!(
        "about = \"blocks\"\nlimit = {LIMIT:.1}\n[[nodes]]\ncount = {}\nspeed = {:.4}\nmem = 256\n\
         [[jobs]]\ncount = {processes}\nseconds = {seconds:.3}\n",
        setting.nodes,
        share(setting.nodes)
    );
    let plan = Scenario::parse(&text)
        .map_err(|e| anyhow!("{e}"))?
        .plan(0, seed);
    let (row, mut measured) = lab(&plan, "armento", *processes)?;
    measured
        .values
        .set(format!("fork.{name}.s"), row.makespan_s);
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "The same work in one process and in four",
        &["processes", "seconds", "% of one process"],
    );
    let one = found.value("fork.one.s");
    for (name, processes) in RUNS {
        let s = found.mean(&format!("fork.{name}.s"));
        let percent = s.zip(one).map(|(s, one)| s.mean / one * 100.0);
        all.rows.push(vec![
            Cell::label(processes.to_string()),
            Cell::measured(s, 1),
            percent.map_or_else(Cell::unrun, |p| Cell::recomputed(p, 1)),
        ]);
    }
    Chapter {
        tables: vec![all],
        notes: vec!["The paper prints no times for its example.".into()],
        ..Chapter::default()
    }
}
