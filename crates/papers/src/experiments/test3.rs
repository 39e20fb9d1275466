//! Test 3 of the MOSIX farm in a lab: a node is busy with its owner's program, under PVM and on a farm.

use super::play::{LIMIT, farm_fits, lab, share};
use crate::chapter::{Cell, Chapter, Table};
use crate::published::TEST1_S;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_scenario::Scenario;
use serde_json::Value;

pub static EXPERIMENT: Experiment = Experiment {
    id: "test3-lab",
    title: "As many programs as nodes beside a busy node, in a lab",
    paper: "M",
    place: "CPU-bound test 3 (a figure without values)",
    requirements: &["R-056"],
    shows: "A task that PVM puts on a busy node takes twice as long; on a farm it leaves, or is not sent there.",
    emulation: "lab: nodes of a tenth of a core, one endless program on the last of them, as many programs of 300 s as nodes; the paper does not state its background load",
    on: On::Lab,
    nodes: 8,
    nodes_range: 2..=16,
    scale: 0.025,
    scale_range: 0.005..=1.0,
    minutes: 0.9,
    tools: &[
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "pvm",
            package: "pvm pvm-dev",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["B-25"],
    fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

const WAYS: [(&str, &str); 3] = [
    ("pvm", "PVM"),
    ("pvm-armento", "PVM on Armento"),
    ("armento", "`armento`"),
];

fn fits(setting: &Setting) -> Result<()> {
    armento_lab::pvm::check()?;
    farm_fits(setting)
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(way, _): (&str, &str)| Run {
        name: way.to_owned(),
        expect_s: TEST1_S * setting.scale * 1.7 + 10.0,
    };
    WAYS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    let known = WAYS.iter().find(|(way, _)| *way == run.name);
    let (way, _) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let n = setting.nodes;
    let text = format!(
        "about = \"busy\"\nlimit = {LIMIT:.1}\n[[nodes]]\ncount = {n}\nspeed = {:.4}\nmem = 256\n\
         [[jobs]]\ncount = {n}\nseconds = {:.3}\n[[background]]\nnode = {n}\n",
        share(n),
        TEST1_S * setting.scale
    );
    let plan = Scenario::parse(&text)
        .map_err(|e| anyhow!("{e}"))?
        .plan(0, seed);
    let (row, mut measured) = lab(&plan, way, n)?;
    for (what, s) in [("s", row.makespan_s), ("limit", row.limit_s)] {
        let name = format!("test3lab.{way}.{what}").replace("pvm-armento", "pvm_on_armento");
        measured.values.set(name, s / setting.scale);
    }
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Test 3: seconds until all programs of 300 s have ended, one node busy",
        &["way", "limit", "seconds", "over limit"],
    );
    for (way, name) in WAYS {
        let way = way.replace("pvm-armento", "pvm_on_armento");
        let get = |what: &str| found.mean(&format!("test3lab.{way}.{what}"));
        let over = get("s").zip(get("limit")).map(|(s, l)| s.mean / l.mean);
        all.rows.push(vec![
            Cell::label(name),
            get("limit").map_or_else(Cell::unrun, |m| Cell::recomputed(m.mean, 0)),
            Cell::measured(get("s"), 0),
            over.map_or_else(Cell::unrun, |o| Cell::recomputed(o, 3)),
        ]);
    }
    Chapter {
        tables: vec![all],
        notes: vec!["The paper prints a figure without values. The endless program counts as one more of the programs in the limit.".into()],
        ..Chapter::default()
    }
}
