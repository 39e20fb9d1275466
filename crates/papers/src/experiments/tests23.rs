//! Tests 2 and 3 of the MOSIX farm, of which no values are printed: random lengths, and a node that is busy.

use super::play::{LIMIT, prices};
use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_balance::Policy;
use armento_scenario::{Row, Scenario};
use serde_json::{Value, json};

const RANDOM: &str = include_str!("../../../../scenarios/paper-random.toml");
const BACKGROUND: &str = include_str!("../../../../scenarios/paper-background.toml");

const BASE: Experiment = Experiment {
    id: "",
    title: "",
    paper: "M",
    place: "",
    requirements: &[],
    shows: "",
    emulation: "",
    on: On::Simulator,
    nodes: 16,
    nodes_range: 16..=16,
    scale: 1.0,
    scale_range: 0.01..=1.0,
    minutes: 0.5,
    tools: &[],
    relations: &[],
    fits: always,
    prepare: nothing,
    runs,
    perform: random,
    derive: as_is,
    chapter: random_chapter,
};

pub static TEST2: Experiment = Experiment {
    id: "test2-sim",
    title: "N programs of 0 to 600 s on 16 nodes, in virtual time",
    place: "CPU-bound test 2 (a figure without values)",
    requirements: &["R-055"],
    shows: "Where lengths differ, placing once loses more: a node with two long programs ends last.",
    emulation: "simulator, full length; five draws of uniform lengths, the same for all policies; `static` stands for PVM",
    ..BASE
};

pub static TEST3: Experiment = Experiment {
    id: "test3-sim",
    title: "N programs of 300 s beside a busy node, in virtual time",
    place: "CPU-bound test 3 (a figure without values)",
    requirements: &["R-056"],
    shows: "A program that was placed beside somebody's own work takes twice as long, unless it may leave.",
    emulation: "simulator, full length; the paper does not state its background load: here one endless program on one of the 16 nodes; `static` stands for PVM",
    perform: background,
    chapter: background_chapter,
    ..BASE
};

const POLICIES: [&str; 3] = ["armento", "mosix", "static"];
/// Draws of random lengths; one is enough where nothing is drawn.
const DRAWS: u64 = 5;

fn runs(_: &Setting) -> Vec<Run> {
    let run = |policy: &str| Run {
        name: policy.to_owned(),
        expect_s: 5.0,
    };
    POLICIES.map(run).to_vec()
}

fn random(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    simulate("test2", RANDOM, run, setting, seed)
}

fn background(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    simulate("test3", BACKGROUND, run, setting, seed)
}

fn simulate(test: &str, text: &str, run: &Run, setting: &Setting, seed: u64) -> Result<Measured> {
    let mut scenario = Scenario::scaled(text, setting.scale).map_err(|e| anyhow!("{e}"))?;
    scenario.limit = LIMIT;
    let policy: Policy = run.name.parse().map_err(|e| anyhow!("{e}"))?;
    let (mut all, mut rows) = (Values::default(), Vec::new());
    for n in scenario.series.clone() {
        let (mut makespan_s, mut limit_s) = (0.0, 0.0);
        for draw in 0..DRAWS {
            let seed = seed * 1000 + draw;
            let plan = scenario.plan(n, seed);
            let played = armento_sim::play(&plan, &policy, prices(), seed);
            let row = Row::of(n, &run.name, draw as u32, &plan, &played);
            makespan_s += row.makespan_s / DRAWS as f64;
            limit_s += row.limit_s / DRAWS as f64;
            rows.push(row);
        }
        all.set(format!("{test}.{n}.{}", run.name), makespan_s);
        all.set(format!("{test}.{n}.limit"), limit_s);
    }
    Ok(Measured {
        values: all,
        raw: json!({ "rows": rows }),
        ..Measured::default()
    })
}

fn random_chapter(found: &Found) -> Chapter {
    chapter("test2", "Test 2: programs of 0 to 600 s", found)
}

fn background_chapter(found: &Found) -> Chapter {
    chapter("test3", "Test 3: programs of 300 s, one node busy", found)
}

fn chapter(test: &str, title: &str, found: &Found) -> Chapter {
    let scale = found.results.map_or(1.0, |r| r.setting.scale);
    let mut all = Table::new(
        format!("{title}: seconds until all have ended, means of {DRAWS} draws"),
        &[
            "N",
            "limit",
            "`armento`",
            "`mosix`",
            "`static`",
            "`static` over `mosix`, %",
            "`static` over `armento`, %",
        ],
    );
    let pattern = format!("{test}.{{n}}.limit");
    let numbers = found.values.numbers(&[&pattern]).unwrap_or_default();
    let numbers = if numbers.is_empty() {
        vec![16]
    } else {
        numbers
    };
    for n in &numbers {
        let get = |name: &str| found.mean(&format!("{test}.{n}.{name}"));
        let seconds = |name: &str| Cell::measured(get(name).map(|m| m.times(1.0 / scale)), 1);
        let more = |name: &str| {
            let ratio = || Some(get("static")?.mean / get(name)?.mean);
            ratio().map_or_else(Cell::unrun, |r| Cell::recomputed((r - 1.0) * 100.0, 1))
        };
        all.rows.push(vec![
            Cell::label(n.to_string()),
            seconds("limit"),
            seconds("armento"),
            seconds("mosix"),
            seconds("static"),
            more("mosix"),
            more("armento"),
        ]);
    }
    let series = |name: &&str| Series {
        name: (*name).to_owned(),
        line: if *name == "limit" {
            Line::Thin
        } else {
            Line::Joined
        },
        points: numbers
            .iter()
            .filter_map(|n| {
                Some((
                    *n as f64,
                    found.value(&format!("{test}.{n}.{name}"))? / scale,
                ))
            })
            .collect(),
    };
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: title.into(),
            x: "programs".into(),
            y: "seconds".into(),
            content: Content::Lines(
                ["armento", "mosix", "static", "limit"]
                    .iter()
                    .map(series)
                    .collect(),
            ),
        }],
        notes: vec![
            "The paper prints these as figures without values. The limit knows all lengths, and counts an endless program of a \
             node as one more of the longest programs: the node gives it less where programs come and go, so that a farm may fall \
             a little below."
                .into(),
        ],
    }
}
