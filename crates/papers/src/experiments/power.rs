//! Equivalent power and its forecast, from the published times.

use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::figures::Power;
use crate::formula::Values;
use crate::published::{MHZ, table, values};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, nothing};
use anyhow::Result;
use serde_json::Value;

pub static EXPERIMENT: Experiment = Experiment {
    id: "power",
    title: "Equivalent power, and its forecast",
    paper: "P",
    place: "tables of equivalent power, stereo and mono; forecast",
    requirements: &["R-052", "R-083"],
    shows: "Three nodes of 300 MHz on point-to-point links do the mono conversions as one of 821 MHz would; a straight line from there to four nodes is no lower bound.",
    emulation: "nothing is run: the formulas are put to the published times",
    on: On::Paper,
    nodes: 3,
    nodes_range: 3..=3,
    scale: 1.0,
    scale_range: 1.0..=1.0,
    minutes: 0.01,
    tools: &[],
    relations: &["Q-04", "Q-05", "Q-06"],
    fits: always,
    prepare: nothing,
    runs,
    perform,
    derive: published_times,
    chapter,
};

const TOPOLOGIES: [&str; 3] = ["hub", "switch", "p2p"];

fn runs(_: &Setting) -> Vec<Run> {
    vec![Run {
        name: "formulas".into(),
        expect_s: 0.0,
    }]
}

fn perform(_: &Run, _: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mut all = Values::default();
    for mode in ["stereo", "mono"] {
        for topology in TOPOLOGIES {
            if let Some(p) = power(mode, topology) {
                all.set(format!("power.{mode}.{topology}.w"), p.w);
            }
        }
    }
    let (low, high) = four_nodes();
    all.set("power.four.low", low);
    all.set("power.four.high", high);
    Ok(Measured {
        values: all,
        ..Measured::default()
    })
}

/// Its relations are about published times.
fn published_times(all: &mut Values) {
    *all = std::mem::take(all).or(values());
}

fn power(mode: &str, topology: &str) -> Option<Power> {
    let of = |name: &str| values().get(&format!("{mode}.{name}"));
    let nodes = of(&format!("{topology}.nodes"))? as u32;
    let times = (of("single.s")?, of(&format!("{topology}.s"))?);
    Some(Power::of(MHZ, nodes, times.0, times.1))
}

/// W of four nodes, MHz, if what three lose stays as it is, or grows with the share of jobs that are away (E-08).
fn four_nodes() -> (f64, f64) {
    let of = |name: &str| values().get(name).unwrap_or(f64::NAN);
    let (single, three) = (of("mono.single.s"), of("mono.p2p.s"));
    let lost = three - single / 3.0;
    let w = |lost: f64| MHZ * single / (single / 4.0 + lost);
    (w(lost * (3.0 / 4.0) / (2.0 / 3.0)), w(lost))
}

fn chapter(found: &Found) -> Chapter {
    let mut powers = Table::new(
        "Equivalent power W = Z T1 / T of three nodes of 300 MHz",
        &[
            "task",
            "topology",
            "W published, MHz",
            "W recomputed, MHz",
            "maximum, MHz",
            "difference published, %",
            "difference recomputed, %",
        ],
    );
    let printed = table("openmosix-topology/equivalent-power.csv").ok();
    let mut bars = Vec::new();
    for mode in ["mono", "stereo"] {
        for topology in TOPOLOGIES {
            let row = printed.as_ref().filter(|_| mode == "mono");
            let row = row.and_then(|t| t.find(&[("topology", topology)]));
            let Some(p) = power(mode, topology) else {
                continue;
            };
            powers.rows.push(vec![
                Cell::label(mode),
                Cell::label(topology),
                Cell::published(row, "w_published_mhz"),
                Cell::recomputed(p.w, 2),
                Cell::recomputed(p.maximum, 0),
                Cell::published(row, "difference_published_pct"),
                Cell::recomputed(p.difference_percent, 2),
            ]);
            bars.push(Bar {
                label: format!("{mode}, {topology}"),
                value: p.w,
                series: usize::from(mode == "stereo"),
            });
        }
    }
    Chapter {
        tables: vec![powers, forecast(found)],
        plots: vec![Plot {
            title: "Equivalent power of three nodes, at most 900 MHz".into(),
            x: "MHz".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: Vec::new(),
    }
}

fn forecast(found: &Found) -> Table {
    let mut all = Table::new(
        "Forecast for four nodes, point to point, mono",
        &["what", "W, MHz", "forecast over it, %"],
    );
    let printed = table("openmosix-topology/forecast.csv").ok();
    let row = printed
        .as_ref()
        .and_then(|t| t.find(&[("kind", "forecast")]));
    let straight = power("mono", "p2p").map_or(f64::NAN, |p| p.w * 4.0 / 3.0);
    all.rows.push(vec![
        Cell::label("published forecast"),
        Cell::published(row, "w_published_mhz"),
        Cell::unprinted(),
    ]);
    all.rows.push(vec![
        Cell::label("straight line, recomputed"),
        Cell::recomputed(straight, 1),
        Cell::unprinted(),
    ]);
    for (name, what) in [
        (
            "power.four.high",
            "if four nodes lose as much time as three",
        ),
        (
            "power.four.low",
            "if the loss grows with the jobs that are away (E-08)",
        ),
    ] {
        let w = found.value(name);
        all.rows.push(vec![
            Cell::label(what),
            w.map_or_else(Cell::unrun, |w| Cell::recomputed(w, 1)),
            w.map_or_else(Cell::unrun, |w| {
                Cell::recomputed((straight / w - 1.0) * 100.0, 1)
            }),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-083, E-08.
    #[test]
    fn powers_are_those_of_the_requirement() {
        for (topology, want) in [("hub", 567.52), ("switch", 623.33), ("p2p", 820.56)] {
            let w = power("mono", topology).expect("published").w;
            assert!((w - want).abs() < 0.005, "{topology}: {w}");
        }
        let (low, high) = four_nodes();
        assert_eq!((low.round(), high.round()), (1048.0, 1063.0));
    }
}
