//! Copies beside a simulation on the fast node.

use super::play::{farm_fits, lab};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_scenario::Scenario;
use serde_json::Value;

const SCENARIO: &str = include_str!("../../../../scenarios/riello.toml");
/// The scale of the scenario: a minute of the paper is 0.3 s.
const SCALE: f64 = 0.005;
/// Start of the copies in the scenario, seconds.
const BEGIN_S: f64 = 3.0;

pub static TABLE1: Experiment = Experiment {
    id: "riello-table1",
    title: "Copies on three slow nodes and a fast one that simulates",
    paper: "R",
    place: "table 1",
    requirements: &["R-046", "R-048", "R-066", "R-087"],
    shows: "Copies that may leave the node on which simulations compute end sooner there, later on the others, and the longest ends sooner.",
    emulation: "lab: three nodes of 0.11 of a core and one of 0.2 (440 and 800 MHz), one program a node that computes, reads and writes 50 MiB of its home's files and waits for the storage; three simulation programs on the fast node; guests yield to a node's own programs; `none` stands for no openMosix, `mosix` (MOSIX's rules) for openMosix",
    on: On::Lab,
    nodes: 4,
    nodes_range: 4..=4,
    scale: 0.003,
    scale_range: 0.001..=0.05,
    minutes: 3.7,
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
    relations: &["Q-27", "Q-29", "B-06"],
    fits: farm_fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Policy, the name of its values, the published configuration.
const WAYS: [(&str, &str, &str); 3] = [
    ("none", "none", "no openMosix"),
    ("mosix", "openmosix", "openMosix"),
    ("armento", "armento", ""),
];

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(way, _, _): (&str, &str, &str)| Run {
        name: way.to_owned(),
        // PAPER(R, table 1): five hours.
        expect_s: 18_000.0 * setting.scale + 20.0,
    };
    WAYS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    let way = WAYS.iter().find(|(way, _, _)| *way == run.name);
    let (way, key, _) = way.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let scenario = Scenario::scaled(SCENARIO, setting.scale / SCALE).map_err(|e| anyhow!("{e}"))?;
    let plan = scenario.plan(0, seed);
    let (row, mut measured) = lab(&plan, way, plan.jobs.len())?;
    let minutes = |s: f64| (s - BEGIN_S) / 60.0 / setting.scale;
    let slow = (1..=3)
        .filter_map(|n| row.copies_s.get(&n).copied())
        .reduce(f64::max);
    for (class, end_s) in [("ii", slow), ("iii", row.copies_s.get(&4).copied())] {
        match end_s {
            Some(s) => measured
                .values
                .set(format!("riello.{key}.{class}"), minutes(s)),
            None => {
                let why = || "not all copies have ended".to_owned();
                measured.problem.get_or_insert_with(why);
            }
        }
    }
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("riello-copies/table1.csv").ok();
    let mut all = Table::new(
        "Table 1: minutes until all files are copied, in the paper's time",
        &[
            "configuration",
            "node",
            "minutes published",
            "minutes",
            "minutes a GB published",
            "minutes a GB",
            "shortest over longest published",
            "shortest over longest",
        ],
    );
    let mut bars = Vec::new();
    for (way, key, configuration) in WAYS {
        let row = |class: &str| {
            let place = [("configuration", configuration), ("node_class", class)];
            printed.as_ref().and_then(|t| t.find(&place))
        };
        let balance = |ii: Option<f64>, iii: Option<f64>| Some(ii?.min(iii?) / ii?.max(iii?));
        let theirs = balance(
            row("Pentium II").and_then(|r| r.number("total_min")),
            row("Pentium III").and_then(|r| r.number("total_min")),
        );
        let get = |class: &str| found.mean(&format!("riello.{key}.{class}"));
        let ours = balance(get("ii").map(|m| m.mean), get("iii").map(|m| m.mean));
        for (class, name) in [("Pentium II", "ii"), ("Pentium III", "iii")] {
            let minutes = get(name);
            all.rows.push(vec![
                Cell::label(match configuration {
                    "" => format!("`{way}`"),
                    other => format!("{other}, `{way}`"),
                }),
                Cell::label(match name {
                    "ii" => "slow (Pentium II), the last of three",
                    _ => "fast (Pentium III)",
                }),
                Cell::published(row(class), "total_min"),
                Cell::measured(minutes, 0),
                Cell::published(row(class), "minutes_per_gb_recomputed"),
                // PAPER(R, table 1): 10 GB a node.
                Cell::measured(minutes.map(|m| m.times(0.1)), 1),
                theirs.map_or_else(Cell::unprinted, |b| Cell::recomputed(b, 2)),
                ours.map_or_else(Cell::unrun, |b| Cell::recomputed(b, 2)),
            ]);
            let published = row(class).and_then(|r| r.number("total_min"));
            bars.extend(published.map(|value| Bar {
                label: format!("{configuration}, {class}, published"),
                value,
                series: 0,
            }));
            bars.extend(minutes.map(|m| Bar {
                label: format!("{way}, {class}, measured"),
                value: m.mean,
                series: 1,
            }));
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Minutes until all files are copied".into(),
            x: "minutes of the paper".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper rates the balance of the load by words; shortest over longest time is given here instead (E-53). The longest \
             copy ends sooner with openMosix, the sum of all nodes' minutes grows (E-52)."
                .into(),
        ],
    }
}
