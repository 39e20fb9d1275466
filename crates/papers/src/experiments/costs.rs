//! What each topology costs: cables and network interfaces.

use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::published::{table, values};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is, nothing};
use anyhow::Result;
use serde_json::Value;

pub static EXPERIMENT: Experiment = Experiment {
    id: "costs",
    title: "Cables and network interfaces of each topology",
    paper: "P",
    place: "description of the topologies",
    requirements: &["R-043"],
    shows: "Point-to-point links need no switch, but 2(N-1) interfaces instead of N, N-1 of them in the server.",
    emulation: "nothing is run: formulas, beside the counts of the paper's table",
    on: On::Paper,
    nodes: 4,
    nodes_range: 2..=16,
    scale: 1.0,
    scale_range: 1.0..=1.0,
    minutes: 0.01,
    tools: &[],
    relations: &[],
    fits: always,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// PAPER(P, point to point): a server with seven PCI cards of one port and one interface on board, or of two ports.
const NODES_MAX: [(f64, &str); 2] = [
    (9.0, "seven cards of one port and one interface on board"),
    (16.0, "seven cards of two ports and one interface on board"),
];

/// Cables and interfaces of so many nodes.
fn needs(topology: &str, nodes: f64) -> (f64, f64) {
    match topology {
        "single" => (0.0, 0.0),
        "p2p" => (nodes - 1.0, 2.0 * (nodes - 1.0)),
        _ => (nodes, nodes),
    }
}

fn runs(_: &Setting) -> Vec<Run> {
    vec![Run {
        name: "formulas".into(),
        expect_s: 0.0,
    }]
}

fn perform(_: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mut all = Values::default();
    for topology in ["single", "hub", "switch", "p2p"] {
        let (cables, nics) = needs(topology, setting.nodes as f64);
        all.set(format!("cost.{topology}.cables"), cables);
        all.set(format!("cost.{topology}.nics"), nics);
    }
    Ok(Measured {
        values: all,
        ..Measured::default()
    })
}

fn chapter(found: &Found) -> Chapter {
    let nodes = found.results.map_or(4, |r| r.setting.nodes);
    let printed = table("openmosix-topology/stereo.csv")
        .ok()
        .filter(|_| nodes == 4);
    let mut all = Table::new(
        format!("Cables and network interfaces of {nodes} nodes"),
        &[
            "topology",
            "cables published",
            "cables, formula",
            "kind of cable",
            "interfaces published",
            "interfaces, formula",
            "share of the maximal power for each interface, mono, %",
        ],
    );
    for topology in ["single", "hub", "switch", "p2p"] {
        let row = printed
            .as_ref()
            .and_then(|t| t.find(&[("topology", topology)]));
        let formula = |what: &str| match found.value(&format!("cost.{topology}.{what}")) {
            Some(count) => Cell::recomputed(count, 0),
            None => Cell::unrun(),
        };
        // With the three nodes that ran.
        let share = values().get(&format!("mono.{topology}.share"));
        let (_, nics) = needs(topology, 3.0);
        let worth = share.filter(|_| nics > 0.0).map(|s| s * 100.0 / nics);
        all.rows.push(vec![
            Cell::label(topology),
            Cell::published(row, "cables"),
            formula("cables"),
            Cell::published(row, "cable_type"),
            Cell::published(row, "nics_total"),
            formula("nics"),
            worth.map_or_else(Cell::unprinted, |w| Cell::recomputed(w, 1)),
        ]);
    }
    let line = |name: &str, topology: &str, most: f64| Series {
        name: name.into(),
        line: Line::Joined,
        points: (2..=most as usize)
            .map(|n| (n as f64, needs(topology, n as f64).1))
            .collect(),
    };
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Network interfaces".into(),
            x: "nodes".into(),
            y: "interfaces".into(),
            content: Content::Lines(vec![
                line("hub or switch", "switch", 16.0),
                line("point to point", "p2p", 16.0),
            ]),
        }],
        notes: NODES_MAX
            .iter()
            .map(|(most, with)| {
                format!("Point to point, a server with {with} has {most} nodes at most.")
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// the paper's counts of four nodes.
    #[test]
    fn formulas_give_the_printed_counts() {
        let table = table("openmosix-topology/stereo.csv").expect("a table");
        for row in table.rows() {
            let topology = row.text("topology").expect("a name");
            let printed = (row.number("cables"), row.number("nics_total"));
            let (cables, nics) = needs(topology, 4.0);
            assert_eq!(printed, (Some(cables), Some(nics)), "{topology}");
        }
    }
}
