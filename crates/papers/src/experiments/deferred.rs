//! Programs that start when a processor is free, against programs that start at once and may move.

use super::play::{LIMIT, farm_fits, lab, share};
use crate::chapter::{Cell, Chapter, Table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_scenario::Scenario;
use serde_json::Value;

/// Programs for each node.
const EACH: usize = 2;
/// Mean length at scale 1, seconds. PAPER(M, test 2): 0 to 600 s.
const MEAN_S: f64 = 300.0;

pub static EXPERIMENT: Experiment = Experiment {
    id: "deferred",
    title: "Programs that wait for a free processor, and programs that start at once",
    paper: "R",
    place: "one process for each processor, later ones deferred (named, without values)",
    requirements: &["R-055", "R-073"],
    shows: "A queue that gives each processor one program at a time needs no moves, but a long program that starts last ends alone; programs that start at once and may move end together.",
    emulation: "lab: nodes of a tenth of a core, two programs of random length for each node; GNU parallel has a slot for each node; PVM deals its tasks out in turn; the lengths are those of test 2 of the MOSIX farm",
    on: On::Lab,
    nodes: 8,
    nodes_range: 2..=16,
    scale: 0.033,
    scale_range: 0.005..=1.0,
    minutes: 1.6,
    tools: &[
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "parallel",
            package: "parallel",
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
    relations: &["B-23"],
    fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

const WAYS: [(&str, &str); 3] = [
    ("parallel", "GNU parallel, one a processor"),
    ("armento", "`armento`, all at once"),
    ("pvm", "PVM, all at once"),
];

fn fits(setting: &Setting) -> Result<()> {
    armento_lab::pvm::check()?;
    farm_fits(setting)
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(way, _): (&str, &str)| Run {
        name: way.to_owned(),
        expect_s: MEAN_S * setting.scale * EACH as f64 * 1.3 + 8.0,
    };
    WAYS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    let known = WAYS.iter().find(|(way, _)| *way == run.name);
    let (way, _) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let n = setting.nodes * EACH;
    let text = format!(
        "about = \"deferred\"\nlimit = {LIMIT:.1}\n[[nodes]]\ncount = {}\nspeed = {:.4}\nmem = 256\n\
         [[jobs]]\ncount = {n}\nseconds = {:.3}\nlengths = \"uniform\"\n",
        setting.nodes,
        share(setting.nodes),
        MEAN_S * setting.scale
    );
    let plan = Scenario::parse(&text)
        .map_err(|e| anyhow!("{e}"))?
        .plan(0, seed);
    let (row, mut measured) = lab(&plan, way, n)?;
    let mut set = |what: &str, value: f64| {
        let name = format!("deferred.{way}.{what}");
        measured.values.set(name, value / setting.scale);
    };
    set("s", row.makespan_s);
    set("mean", row.mean_s);
    set("limit", row.limit_s);
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Two programs of 0 to 600 s for each node: seconds from the start of all",
        &[
            "way",
            "limit",
            "until all have ended",
            "until one has ended, mean",
        ],
    );
    for (way, name) in WAYS {
        let get = |what: &str| found.mean(&format!("deferred.{way}.{what}"));
        all.rows.push(vec![
            Cell::label(name),
            get("limit").map_or_else(Cell::unrun, |m| Cell::recomputed(m.mean, 0)),
            Cell::measured(get("s"), 0),
            Cell::measured(get("mean"), 0),
        ]);
    }
    Chapter {
        tables: vec![all],
        notes: vec![
            "The queue pays for no move and no keeper, and is the baseline that a farm has to reach. Its mean is lower: where all run at \
             once, short programs wait for shares of long ones. B-23 fails where programs are short beside their start (some tenths \
             of a second on a node of a tenth of a core): `--scale 0.1` has longer ones."
                .into(),
        ],
        ..Chapter::default()
    }
}
