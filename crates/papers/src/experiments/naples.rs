//! Ten nodes that convert sound files: the test of the X terminals of Naples, of which no result is known.

use super::conversions::{TOOLS, clip_fits, converted, speed_of};
use crate::chapter::{Cell, Chapter, Table};
use crate::encoders::{Mode, Prepared, Topology, Work};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always};
use anyhow::Result;
use serde_json::Value;

pub static EXPERIMENT: Experiment = Experiment {
    id: "mp3-ten-nodes",
    title: "24 conversions on a farm of ten nodes",
    paper: "N",
    place: "mp3 test (the text at hand ends before its result, E-60)",
    requirements: &["R-069"],
    shows: "Ten X terminals become a cluster that converts sound files.",
    emulation: "lab: the stereo conversions of the paper on topologies by lame, ten nodes behind a switch whose rate keeps that paper's ratio of processor time to bytes",
    on: On::Lab,
    nodes: 10,
    nodes_range: 2..=16,
    scale: 0.014,
    scale_range: 0.001..=1.0,
    minutes: 2.5,
    tools: TOOLS,
    relations: &[],
    fits: always,
    prepare,
    runs,
    perform,
    derive,
    chapter,
};

fn prepare(setting: &Setting) -> Result<Value> {
    let wanted_s = Mode::Stereo.single_s() * setting.scale;
    let prepared = crate::encoders::prepare(Mode::Stereo, wanted_s, speed_of(setting.nodes))?;
    clip_fits(&prepared, setting)?;
    Ok(serde_json::to_value(prepared)?)
}

fn runs(setting: &Setting) -> Vec<Run> {
    let single_s = Mode::Stereo.single_s() * setting.scale;
    let run = |name: &str, nodes: usize| Run {
        name: name.to_owned(),
        expect_s: single_s / nodes as f64 + 15.0,
    };
    vec![run("single", 1), run("farm", setting.nodes)]
}

fn perform(run: &Run, setting: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    let prepared: Prepared = serde_json::from_value(setup.clone())?;
    let work = Work::new(&prepared)?;
    let nodes = if run.name == "single" {
        1
    } else {
        setting.nodes
    };
    converted(&work, nodes, Topology::Switch, &format!("mp3.{}", run.name))
}

fn derive(all: &mut Values) {
    if let Some((single, farm)) = all.get("mp3.single.s").zip(all.get("mp3.farm.s")) {
        all.set("mp3.w", single / farm);
    }
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "24 conversions: power in nodes",
        &[
            "nodes",
            "seconds",
            "W",
            "W over nodes, %",
            "processor time away from n1, %",
        ],
    );
    for name in ["single", "farm"] {
        let get = |what: &str| found.mean(&format!("mp3.{name}.{what}"));
        let w = match name {
            "single" => get("s").map(|_| 1.0),
            _ => found.value("mp3.w"),
        };
        let nodes = get("nodes").map(|n| n.mean);
        let share = w.zip(nodes).map(|(w, nodes)| w / nodes * 100.0);
        let shown = |v: Option<f64>, d| v.map_or_else(Cell::unrun, |v| Cell::recomputed(v, d));
        all.rows.push(vec![
            shown(nodes, 0),
            Cell::measured(get("s"), 1),
            shown(w, 2),
            shown(share, 1),
            match name {
                "single" => Cell::unprinted(),
                _ => Cell::measured(get("away_pct"), 1),
            },
        ]);
    }
    Chapter {
        tables: vec![all],
        notes: vec!["24 conversions on ten nodes are three for some of them where turns are not taken: then W is 8 at most.".into()],
        ..Chapter::default()
    }
}
