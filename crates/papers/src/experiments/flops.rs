//! Pi on one to eight nodes.

use super::ranks::{TOOLS, compile, cores, in_lab, name, open_mpi, patiently, scaled, words};
use crate::chapter::{Bar, Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::{Context, Result};
use armento_lab::{Link, Spec};
use armento_mpi::{Flops, LINK_BIT_S, Program};
use serde_json::{Value, json};

/// PAPER(K, benchmark definitions): points and repeats.
const POINTS: f64 = 200e6;
const REPEATS: f64 = 4.0;
/// Share of this machine that all nodes have together.
const CORES_SHARE: f64 = 0.8;
/// A node of the paper's eight, as a share of a core, at most.
const SHARE_MAX: f64 = 0.2;

pub static EXPERIMENT: Experiment = Experiment {
    id: "flops",
    title: "Flops: speed of a cluster of one to eight nodes",
    paper: "K",
    place: "table 1, comparison with a desktop processor",
    requirements: &["R-060"],
    shows: "The speed of a cluster grows nearly with its nodes; what all wait for each other grows with them, too.",
    emulation: "lab: nodes of a fifth of a core behind a switch of 100 Mbit/s, Open MPI; our own program of the same definition (200 million points, 9 operations each); the desktop processor is this machine, one core and two",
    on: On::Lab,
    nodes: 8,
    nodes_range: 2..=16,
    scale: 1.0,
    scale_range: 0.01..=10.0,
    minutes: 0.7,
    tools: TOOLS,
    relations: &["Q-18", "Q-19", "Q-20", "Q-21"],
    fits: always,
    prepare: |_| compile(&[Program::Flops]),
    runs,
    perform,
    derive: as_is,
    chapter,
};

fn share(nodes: usize) -> f64 {
    (CORES_SHARE * cores() as f64 / nodes as f64).min(SHARE_MAX)
}

fn runs(setting: &Setting) -> Vec<Run> {
    // Measured: 0.3 s for all points on a core at full speed.
    let whole = 0.3 * setting.scale * REPEATS;
    let node = |n: usize| Run {
        name: n.to_string(),
        expect_s: whole / share(setting.nodes) / n as f64 + 2.0,
    };
    let desk = |n: usize| Run {
        name: format!("reference-{n}"),
        expect_s: whole / n as f64 + 2.0,
    };
    let nodes = (1..=setting.nodes).map(node);
    nodes.chain((1..=cores().min(2)).map(desk)).collect()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    let points = scaled(POINTS, setting);
    let (desk, n) = match run.name.strip_prefix("reference-") {
        Some(n) => (true, n),
        None => (false, &*run.name),
    };
    let n: usize = n.parse().context("a number of nodes")?;
    let spec = Spec {
        name: name("flops"),
        nodes: if desk { 1 } else { n },
        speeds: vec![if desk { 1.0 } else { share(setting.nodes) }],
        cores: vec![if desk { n } else { 1 }],
        link: Link::Switch { bits: LINK_BIT_S },
        farm: false,
        ..Spec::default()
    };
    in_lab(spec, |ground| {
        let all: Flops = patiently(ground, &mpi, Program::Flops, n, &words(&[points, REPEATS]))?;
        Ok((values(&all, desk, points), json!(all)))
    })
}

/// Times as long as all points would take.
fn values(f: &Flops, desk: bool, points: f64) -> Values {
    let mut v = Values::default();
    let n = f.np;
    if desk {
        v.set(format!("reference.{n}.mflops"), f.mflops);
        return v;
    }
    v.set(format!("flops.{n}.s"), f.s * POINTS / points);
    v.set(format!("flops.{n}.mflops"), f.mflops);
    for (i, speed) in f.nodes.iter().enumerate() {
        v.set(format!("flops.{n}.node{i}"), *speed);
    }
    let least = f.nodes.iter().copied().reduce(f64::min).unwrap_or(0.0);
    v.set(format!("flops.{n}.node_min"), least);
    v.set(format!("flops.{n}.node_sum"), f.nodes.iter().sum());
    v
}

fn chapter(found: &Found) -> Chapter {
    let nodes = found.results.map_or(8, |r| r.setting.nodes);
    let mut all = Table::new(
        "Table 1: time and speed of the cluster",
        &[
            "nodes",
            "s published",
            "s",
            "MFLOPS published",
            "MFLOPS",
            "efficiency % published",
            "efficiency %",
        ],
    );
    let mut each = Table::new(
        "Table 1: speed of each node, MFLOPS",
        &[
            "nodes",
            "node",
            "published",
            "measured",
            "lowest to highest of all nodes",
        ],
    );
    let cluster = table("teaching-cluster/flops-cluster.csv").ok();
    let per_node = table("teaching-cluster/flops-per-node.csv").ok();
    let one = found.value("flops.1.mflops");
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for n in 1..=nodes {
        let row = cluster
            .as_ref()
            .and_then(|t| t.find(&[("nodes", &n.to_string())]));
        let (s, speed) = (
            found.mean(&format!("flops.{n}.s")),
            found.mean(&format!("flops.{n}.mflops")),
        );
        let efficiency = speed
            .zip(one)
            .map(|(speed, one)| speed.mean / one / n as f64 * 100.0);
        all.rows.push(vec![
            Cell::label(n.to_string()),
            Cell::published(row, "time_s"),
            Cell::measured(s, 2),
            Cell::published(row, "cluster_mflops"),
            Cell::measured(speed, 0),
            Cell::published(row, "efficiency_pct_recomputed"),
            efficiency.map_or_else(Cell::unrun, |e| Cell::recomputed(e, 1)),
        ]);
        let published = row.and_then(|r| r.number("efficiency_pct_recomputed"));
        for (line, value) in lines.iter_mut().zip([efficiency, published, Some(100.0)]) {
            line.extend(value.map(|v| (n as f64, v)));
        }
        for i in 0..n {
            let row = per_node
                .as_ref()
                .and_then(|t| t.find(&[("nodes", &n.to_string()), ("node", &i.to_string())]));
            let range = [format!("flops.{n}.node_min"), format!("flops.{n}.node_sum")];
            let range = found.value(&range[0]).zip(found.value(&range[1]));
            each.rows.push(vec![
                Cell::label(n.to_string()),
                Cell::label(i.to_string()),
                Cell::published(row, "mflops"),
                Cell::measured(found.mean(&format!("flops.{n}.node{i}")), 0),
                match range.filter(|_| i == 0) {
                    Some((least, sum)) => Cell::label(format!("lowest {least:.0}, sum {sum:.0}")),
                    None => Cell::label(""),
                },
            ]);
        }
    }
    let [ours, theirs, even] = lines;
    let series = |name: &str, line, points| Series {
        name: name.to_owned(),
        line,
        points,
    };
    let mut desk = Table::new(
        "The same on one machine",
        &[
            "cores",
            "MFLOPS published",
            "MFLOPS",
            "of one core published",
            "of one core",
        ],
    );
    let reference = table("teaching-cluster/flops-reference-cpu.csv").ok();
    let row = |n: usize| {
        let cores = n.to_string();
        reference
            .as_ref()
            .and_then(|t| t.find(&[("cores", &cores)]))
    };
    let printed = |n: usize| row(n).and_then(|r| r.number("mflops"));
    let mut bars = Vec::new();
    for n in [1, 2] {
        let speed = found.mean(&format!("reference.{n}.mflops"));
        let first = found.value("reference.1.mflops");
        let ratio = speed.zip(first).map(|(s, f)| s.mean / f);
        let theirs = printed(n).zip(printed(1)).map(|(a, b)| a / b);
        desk.rows.push(vec![
            Cell::label(n.to_string()),
            Cell::published(row(n), "mflops"),
            Cell::measured(speed, 0),
            theirs.map_or_else(Cell::unprinted, |r| Cell::recomputed(r, 3)),
            ratio.map_or_else(Cell::unrun, |r| Cell::recomputed(r, 3)),
        ]);
        bars.extend(speed.map(|s| Bar {
            label: format!("{n} cores of this machine"),
            value: s.mean,
            series: 1,
        }));
    }
    let last = found.value(&format!("flops.{nodes}.mflops"));
    bars.extend(last.map(|value| Bar {
        label: format!("{nodes} nodes"),
        value,
        series: 0,
    }));
    Chapter {
        tables: vec![all, each, desk],
        plots: vec![
            Plot {
                title: "Efficiency".into(),
                x: "nodes".into(),
                y: "% of one node".into(),
                content: Content::Lines(vec![
                    series("measured", Line::Joined, ours),
                    series("published", Line::Points, theirs),
                    series("linear", Line::Thin, even),
                ]),
            },
            Plot {
                title: "Cluster and machine".into(),
                x: "MFLOPS".into(),
                y: String::new(),
                content: Content::Bars(bars),
            },
        ],
        notes: vec![
            "The paper calls the growth proportional, and its own figures give 87.6 % at eight nodes (E-40); more than 100 % at two and three \
             comes from single runs (E-43). Each process times itself and process 0 waits for the sum, so that the nodes' speeds add up to \
             a little more than the cluster's (E-44)."
                .into(),
            "Nodes of a lab have no memory or cache of their own: what they wait for each other is the start of a quota's period, some \
             milliseconds a repeat."
                .into(),
            "Processes of a lab sleep while they wait and share the machine's memory: where 1.6 processors are free, eight nodes reach more than \
             the paper's 87.6 % (97.7 % measured), above the range of Q-19; where they are not, the last rows fall below it. In Q-20 node 0 may be \
             a thousandth faster than another, whose clock starts a moment earlier."
                .into(),
        ],
    }
}
