//! One large file copied through the cluster's file system, on each network.

use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::copy::measure;
use crate::encoders::Topology;
use crate::hosts::Hosts;
use crate::published::{LINK_BIT_S, table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, always, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_lab::{CableFault, Lab, Spec};
use serde_json::{Value, json};

/// PAPER(P, copy): 10 x 32,768 x 1,024 bytes.
const BYTES: f64 = 335_544_320.0;
/// Frames that the faulty switch loses at one node, percent: so many leave the rate that the paper measured, 5.9 Mbit/s (E-12).
const LOST_PERCENT: f64 = 20.0;
/// To start and end a lab, seconds.
const LAB_S: f64 = 6.0;

pub static EXPERIMENT: Experiment = Experiment {
    id: "copy",
    title: "A file of 320 MiB copied to another node",
    paper: "P",
    place: "copies through the cluster's file system",
    requirements: &["R-051"],
    shows: "A copy takes as long as the link carries its bytes: direct links need a fifth of the hub's time, and a switch that was slower than the hub had a fault.",
    emulation: "lab: cp and fsync through MFS at the paper's rates; the faulty switch loses every fifth long frame at the receiver, as a duplex mismatch does",
    on: On::Lab,
    nodes: 2,
    nodes_range: 2..=2,
    scale: 0.05,
    scale_range: 0.01..=1.0,
    minutes: 1.2,
    tools: &[Tool {
        program: "ip",
        package: "iproute2",
    }],
    relations: &["Q-08"],
    fits: always,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Name of the run and its values, the network, whether one cable has a fault.
const RUNS: [(&str, Topology, bool); 4] = [
    ("hub", Topology::Hub, false),
    ("switch", Topology::Switch, false),
    ("p2p", Topology::P2p, false),
    ("faulty", Topology::Switch, true),
];

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, topology, faulty): (&str, Topology, bool)| {
        let bit_s = if faulty || topology == Topology::Hub {
            LINK_BIT_S / 10.0
        } else {
            LINK_BIT_S
        };
        Run {
            name: name.to_owned(),
            expect_s: BYTES * setting.scale * 8.0 / bit_s + LAB_S,
        }
    };
    RUNS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let known = RUNS.iter().find(|(name, ..)| *name == run.name);
    let (name, topology, faulty) =
        known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let fault = CableFault::Duplex {
        node: 2,
        percent: LOST_PERCENT,
    };
    let lab = Lab::up(Spec {
        name: format!("copy-{}", std::process::id()),
        nodes: 2,
        link: topology.link((LINK_BIT_S / 1e6) as u32),
        faults: faulty.then_some(fault).into_iter().collect(),
        ..Spec::default()
    })?;
    let bytes = (BYTES * setting.scale) as u64;
    let copied = Hosts::of(&lab).and_then(|hosts| measure(&hosts, bytes));
    let lost = lab.lost();
    let traffic = lab.traffic();
    lab.down()?;
    if !lost.is_empty() {
        return Ok(Measured {
            problem: Some(format!("nodes were lost: {}", lost.join(", "))),
            ..Measured::default()
        });
    }
    let seconds = copied?;
    let mut measured = Measured {
        raw: json!({ "bytes": bytes, "seconds": seconds }),
        traffic: traffic?,
        ..Measured::default()
    };
    // As long as the whole file would take.
    let whole = seconds / setting.scale;
    measured.values.set(format!("copy.{name}.s"), whole);
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("openmosix-topology/copy.csv").ok();
    let mut all = Table::new(
        "Copy of 320 MiB: published, beside measured for as many bytes",
        &[
            "network",
            "seconds published",
            "seconds",
            "% of the hub published",
            "% of the hub",
            "MB/s published",
            "MB/s",
        ],
    );
    let hub = found.value("copy.hub.s");
    let mut bars = Vec::new();
    for (name, topology, faulty) in RUNS {
        let row = printed.as_ref().filter(|_| !faulty);
        let row = row.and_then(|t| t.find(&[("topology", topology.word())]));
        let s = found.mean(&format!("copy.{name}.s"));
        let of = |f: fn(f64, f64) -> f64, base: Option<f64>, d| {
            let value = s.zip(base).map(|(s, base)| f(s.mean, base));
            value.map_or_else(Cell::unrun, |v| Cell::recomputed(v, d))
        };
        let label = if faulty {
            "switch with a fault".to_owned()
        } else {
            topology.word().to_owned()
        };
        all.rows.push(vec![
            Cell::label(label.clone()),
            Cell::published(row, "time_s"),
            Cell::measured(s, 1),
            Cell::published(row, "percent_of_hub_published"),
            of(|s, hub| s / hub * 100.0, hub, 1),
            Cell::published(row, "rate_published_mb_s"),
            of(|s, bytes| bytes / s / 1_048_576.0, Some(BYTES), 2),
        ]);
        let published = row.and_then(|r| r.number("time_s"));
        for (what, value, series) in [
            ("published", published, 0),
            ("measured", s.map(|s| s.mean), 1),
        ] {
            bars.extend(value.map(|value| Bar {
                label: format!("{label}, {what}"),
                value,
                series,
            }));
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Copy of 320 MiB".into(),
            x: "s".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper's switch was slower than its hub and names no cause (E-12): the row with a fault shows what a duplex mismatch \
             does to a link of 100 Mbit/s."
                .into(),
            "Over direct links the paper's file system carried 36 % of what they can, and MFS nearly all of it; so the ratio to the \
             hub is that of the links, below the range of Q-08."
                .into(),
        ],
    }
}
