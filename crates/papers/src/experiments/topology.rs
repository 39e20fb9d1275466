//! 24 encodings on one node, and on a hub, a switch and direct links, stereo and mono.

use super::conversions::{TOOLS, clip_fits, converted, speed_of};
use crate::chapter::{Bar, Cell, Chapter, Content, Mean, Plot, Table};
use crate::encoders::{
    Mode, Prepared, Together, Topology, Work, places_picture, prepare as measure,
};
use crate::formula::Values;
use crate::published::{MHZ, Row, table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always};
use anyhow::Result;
use serde_json::Value;

const EMULATION: &str = "lab: lame on recorded voices instead of bladeenc, on links whose rate keeps the paper's ratio of processor time to bytes; the hub has a tenth of it, and no collisions";

const BASE: Experiment = Experiment {
    id: "",
    title: "",
    paper: "P",
    place: "",
    requirements: &["R-050", "R-080", "R-081", "R-082", "R-083"],
    shows: "",
    emulation: EMULATION,
    on: On::Lab,
    nodes: 3,
    nodes_range: 2..=8,
    scale: 0.012,
    scale_range: 0.001..=1.0,
    minutes: 4.0,
    tools: TOOLS,
    relations: &[],
    fits: always,
    prepare: prepare_stereo,
    runs: stereo_runs,
    perform: stereo,
    derive: shares,
    chapter: stereo_chapter,
};

pub static STEREO: Experiment = Experiment {
    id: "topology-stereo",
    title: "24 stereo conversions on one node and on a farm",
    place: "table of the stereo runs",
    shows: "24 conversions started at once on three nodes take 35 to 38 % of the single node's time, on any network.",
    relations: &["Q-01", "Q-02", "Q-05", "B-05"],
    ..BASE
};

pub static MONO: Experiment = Experiment {
    id: "topology-mono",
    title: "24 mono conversions on one node and on a farm",
    place: "table of the mono runs",
    shows: "Half the processor time for the same bytes: the network decides, and direct links need 36.6 %, the hub 52.9 %.",
    relations: &["Q-01", "Q-02", "Q-04", "Q-09", "B-04"],
    scale: 0.02,
    minutes: 3.5,
    prepare: prepare_mono,
    runs: mono_runs,
    perform: mono,
    chapter: mono_chapter,
    ..BASE
};

fn prepare_stereo(setting: &Setting) -> Result<Value> {
    prepare(Mode::Stereo, setting)
}

fn prepare_mono(setting: &Setting) -> Result<Value> {
    prepare(Mode::Mono, setting)
}

fn prepare(mode: Mode, setting: &Setting) -> Result<Value> {
    let prepared = measure(
        mode,
        mode.single_s() * setting.scale,
        speed_of(setting.nodes),
    )?;
    clip_fits(&prepared, setting)?;
    Ok(serde_json::to_value(prepared)?)
}

fn stereo_runs(setting: &Setting) -> Vec<Run> {
    runs(Mode::Stereo, setting)
}

fn mono_runs(setting: &Setting) -> Vec<Run> {
    runs(Mode::Mono, setting)
}

fn runs(mode: Mode, setting: &Setting) -> Vec<Run> {
    let single_s = mode.single_s() * setting.scale;
    let run = |name: &str, nodes: usize| Run {
        name: name.to_owned(),
        expect_s: single_s / nodes as f64 + 12.0,
    };
    let farms = Topology::ALL.map(|t| run(t.word(), setting.nodes));
    [run("single", 1)].into_iter().chain(farms).collect()
}

fn stereo(run: &Run, setting: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    perform(Mode::Stereo, run, setting, setup)
}

fn mono(run: &Run, setting: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    perform(Mode::Mono, run, setting, setup)
}

fn perform(mode: Mode, run: &Run, setting: &Setting, setup: &Value) -> Result<Measured> {
    let prepared: Prepared = serde_json::from_value(setup.clone())?;
    let work = Work::new(&prepared)?;
    let topology = Topology::ALL.into_iter().find(|t| t.word() == run.name);
    let nodes = topology.map_or(1, |_| setting.nodes);
    let key = format!("{}.{}", mode.word(), run.name);
    converted(&work, nodes, topology.unwrap_or(Topology::Switch), &key)
}

/// W over its maximum.
fn shares(all: &mut Values) {
    for mode in ["stereo", "mono"] {
        let Some(single) = all.get(&format!("{mode}.single.s")) else {
            continue;
        };
        for topology in ["hub", "switch", "p2p"] {
            let of = |name: &str| all.get(&format!("{mode}.{topology}.{name}"));
            let both = of("s").zip(of("nodes"));
            if let Some((s, nodes)) = both {
                all.set(format!("{mode}.{topology}.share"), single / s / nodes);
                all.set(format!("{mode}.{topology}.percent"), s / single * 100.0);
            }
        }
    }
}

fn stereo_chapter(found: &Found) -> Chapter {
    chapter(Mode::Stereo, found)
}

fn mono_chapter(found: &Found) -> Chapter {
    chapter(Mode::Mono, found)
}

fn chapter(mode: Mode, found: &Found) -> Chapter {
    let word = mode.word();
    let printed = table(mode.table()).ok();
    let mut all = Table::new(
        format!("24 conversions, {word}: published, three nodes of 300 MHz, beside measured"),
        &[
            "topology",
            "nodes published",
            "nodes",
            "makespan published, s",
            "makespan, s",
            "% of the single node published",
            "% of the single node",
        ],
    );
    let mut spread = Table::new(
        "Slowest and fastest conversion",
        &[
            "topology",
            "slow published, s",
            "slow, s",
            "fast published, s",
            "fast, s",
            "diff published, s",
            "diff, s",
            "diff published, %",
            "diff, %",
        ],
    );
    let mut bars = Table::new(
        "Percent of the single node, one cell for 2 %",
        &["topology", "", "%", "bar"],
    );
    let mut picture = Vec::new();
    let percent = |topology: &str| match topology {
        "single" => found.mean(&format!("{word}.single.s")).map(|_| 100.0),
        other => found.value(&format!("{word}.{other}.percent")),
    };
    for topology in ["single", "hub", "switch", "p2p"] {
        let row = printed
            .as_ref()
            .and_then(|t| t.find(&[("topology", topology)]));
        let get = |name: &str| found.mean(&format!("{word}.{topology}.{name}"));
        let measured = |name: &str, decimals| match topology {
            "single" if name != "s" => Cell::unprinted(),
            _ => Cell::measured(get(name), decimals),
        };
        let percent = percent(topology);
        let nodes_listed = Cell {
            erratum: row.and_then(|r| crate::published::mark(&r, "nodes_listed")),
            ..Cell::published(row, "nodes_measured")
        };
        all.rows.push(vec![
            Cell::label(topology),
            nodes_listed,
            match get("nodes") {
                Some(n) => Cell::recomputed(n.mean, 0),
                None => Cell::unrun(),
            },
            Cell::published(row, "makespan_s"),
            measured("s", 1),
            Cell::published(row, "percent_of_single_published"),
            Cell::measured(percent.and_then(|p| Mean::of(&[p])), 2),
        ]);
        spread.rows.push(vec![
            Cell::label(topology),
            Cell::published(row, "slowest_s"),
            measured("slowest", 1),
            Cell::published(row, "fastest_s"),
            measured("fastest", 1),
            Cell::published(row, "diff_s_published"),
            measured("diff", 1),
            Cell::published(row, "diff_pct_published"),
            measured("diff_pct", 1),
        ]);
        let published = row.and_then(|r: Row| r.number("percent_of_single_published"));
        if let Some(p) = published {
            bars.rows.push(vec![
                Cell::label(topology),
                Cell::label("published"),
                Cell::published(row, "percent_of_single_published"),
                Cell::bar(Some(p)),
            ]);
            picture.push(bar(topology, "published", p, 0));
        }
        bars.rows.push(vec![
            Cell::label(topology),
            Cell::label("measured"),
            Cell::measured(percent.and_then(|p| Mean::of(&[p])), 2),
            Cell::bar(percent),
        ]);
        picture.extend(percent.map(|p| bar(topology, "measured", p, 1)));
    }
    let mut plots = vec![Plot {
        title: format!("24 conversions, {word}: percent of the single node"),
        x: "%".into(),
        y: String::new(),
        content: Content::Bars(picture),
    }];
    plots.extend(places_of(found));
    Chapter {
        tables: vec![all, spread, bars, power(mode, found)],
        plots,
        notes: vec![
            "The makespan is last end less first start; the paper takes the longest job (E-15). Stereo and mono have clips of their \
             own length, so that their times are not compared with each other (Q-03, Q-06)."
                .into(),
        ],
    }
}

/// Where the conversions of the first run on the farm were.
fn places_of(found: &Found) -> Option<Plot> {
    let results = found.results?;
    let sample = results.samples.iter().find(|s| s.run == "switch")?;
    let all: Together = serde_json::from_value(sample.raw.clone()).ok()?;
    let nodes: Vec<String> = (1..=results.setting.nodes)
        .map(|n| format!("n{n}"))
        .collect();
    Some(places_picture(&all.ran.spans, &all.samples, &nodes))
}

fn bar(topology: &str, what: &str, value: f64, series: usize) -> Bar {
    Bar {
        label: format!("{topology}, {what}"),
        value,
        series,
    }
}

///
fn power(mode: Mode, found: &Found) -> Table {
    let word = mode.word();
    let mut all = Table::new(
        "Equivalent power W = Z T1 / T, with the node's 300 MHz for Z",
        &[
            "topology",
            "W published or recomputed, MHz",
            "of at most",
            "W, MHz",
            "of at most",
            "difference published or recomputed, %",
            "difference, %",
        ],
    );
    let printed = table("openmosix-topology/equivalent-power.csv").ok();
    for topology in ["hub", "switch", "p2p"] {
        let row = printed.as_ref().filter(|_| mode == Mode::Mono);
        let row = row.and_then(|t| t.find(&[("topology", topology)]));
        let theirs = crate::published::values();
        let of = |name: &str| theirs.get(&format!("{word}.{topology}.{name}"));
        let recomputed = of("share").zip(of("nodes"));
        let recomputed = |f: fn((f64, f64)) -> f64, d| {
            recomputed.map_or_else(Cell::unprinted, |v| Cell::recomputed(f(v), d))
        };
        let share = found.value(&format!("{word}.{topology}.share"));
        let nodes = found.value(&format!("{word}.{topology}.nodes"));
        let ours = share.zip(nodes);
        let ours = |f: fn((f64, f64)) -> f64, d| {
            ours.map_or_else(Cell::unrun, |v| Cell::recomputed(f(v), d))
        };
        all.rows.push(vec![
            Cell::label(topology),
            match row {
                Some(_) => Cell::published(row, "w_published_mhz"),
                None => recomputed(|(share, nodes)| share * nodes * MHZ, 1),
            },
            recomputed(|(_, nodes)| nodes * MHZ, 0),
            ours(|(share, nodes)| share * nodes * MHZ, 1),
            ours(|(_, nodes)| nodes * MHZ, 0),
            match row {
                Some(_) => Cell::published(row, "difference_published_pct"),
                None => recomputed(|(share, _)| (share - 1.0) * 100.0, 2),
            },
            ours(|(share, _)| (share - 1.0) * 100.0, 2),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_from_both_runs() {
        let mut all = Values::default();
        for (name, value) in [
            ("mono.single.s", 90.0),
            ("mono.switch.s", 40.0),
            ("mono.switch.nodes", 3.0),
        ] {
            all.set(name, value);
        }
        shares(&mut all);
        assert_eq!(all.get("mono.switch.share"), Some(0.75));
        assert!(all.get("mono.hub.share").is_none());
    }
}
