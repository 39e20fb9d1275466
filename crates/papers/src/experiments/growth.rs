//! The curve of equivalent power over the number of nodes, with its forecast: in virtual time to 100 nodes, and in a lab
//! to four.

use super::conversions::{TOOLS, clip_fits, converted, speed_of};
use super::play::{LIMIT, prices};
use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::encoders::{Mode, Prepared, Topology, Work};
use crate::formula::Values;
use crate::published::{JOBS, values};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, nothing};
use anyhow::{Result, anyhow};
use armento_balance::Policy;
use armento_scenario::{Row, Scenario};
use serde_json::{Value, json};

const SHOWS: &str = "Each further node adds less than the one before, so that a straight line through fewer nodes forecasts too much, and is no lower bound.";

pub static SIMULATED: Experiment = Experiment {
    id: "growth-sim",
    title: "Equivalent power of 1 to 100 nodes, in virtual time",
    paper: "P",
    place: "growth curve (a figure without values), forecast",
    requirements: &["R-052"],
    shows: SHOWS,
    emulation: "simulator, full length, policy `armento`: programs that compute as long as a mono conversion and copy its bytes from home; each has a link of 100 Mbit/s to itself, as on point-to-point links, and home's work for files is shared",
    on: On::Simulator,
    nodes: 100,
    nodes_range: 4..=1000,
    scale: 1.0,
    scale_range: 0.1..=1.0,
    minutes: 0.5,
    tools: &[],
    relations: &["B-07"],
    fits: always,
    prepare: nothing,
    runs: simulated_runs,
    perform: simulate,
    derive: forecasts,
    chapter: simulated_chapter,
};

pub static LIVE: Experiment = Experiment {
    id: "growth-lab",
    title: "Equivalent power of 1 to 4 nodes, in a lab",
    paper: "P",
    place: "growth curve (a figure without values), forecast",
    requirements: &["R-052"],
    shows: SHOWS,
    emulation: "lab: 24 mono conversions by lame behind a switch whose rate keeps the paper's ratio of processor time to bytes",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=8,
    scale: 0.03,
    scale_range: 0.002..=1.0,
    minutes: 5.0,
    tools: TOOLS,
    relations: &["B-07"],
    fits: always,
    prepare,
    runs: live_runs,
    perform: convert,
    derive: live_forecasts,
    chapter: live_chapter,
};

/// The paper's task, and one that fills every farm.
const TASKS: [(&str, &str); 2] = [
    ("growth", "24 conversions"),
    ("filled", "8 conversions a node"),
];
/// Conversions of a filled farm, a node.
const JOBS_EACH: usize = 8;

/// Numbers of nodes: all to ten, then in steps.
fn sizes(most: usize) -> Vec<usize> {
    let steps = (1..=10).chain([12, 14, 16, 20, 24, 32, 48, 64, 80, 100, 200, 500, 1000]);
    let mut all: Vec<usize> = steps.filter(|n| *n <= most).collect();
    if all.last() != Some(&most) {
        all.push(most);
    }
    all
}

fn simulated_runs(_: &Setting) -> Vec<Run> {
    let run = |(_, task): (&str, &str)| Run {
        name: task.to_owned(),
        expect_s: 10.0,
    };
    TASKS.map(run).to_vec()
}

/// A node computes as a tenth of today's core; lengths are those of the paper's nodes.
fn scenario(nodes: usize, jobs: usize, scale: f64) -> Result<Scenario> {
    let seconds = Mode::Mono.cpu_s_per_job();
    let text = format!(
        "about = \"conversions\"\nlimit = {LIMIT:.1}\nlink_mbit = 100\n\
         [[nodes]]\ncount = {nodes}\nspeed = 0.1\n\
         [[jobs]]\ncount = {jobs}\nseconds = {seconds:.3}\ncopy = {{ mib = 51, wait = 0.0 }}\n"
    );
    Scenario::scaled(&text, scale).map_err(|e| anyhow!("{e}"))
}

fn simulate(run: &Run, setting: &Setting, _: &Value, seed: u64) -> Result<Measured> {
    let task = TASKS.iter().find(|(_, name)| *name == run.name);
    let (key, _) = task.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let policy: Policy = "armento".parse().map_err(|e| anyhow!("{e}"))?;
    let (mut all, mut rows) = (Values::default(), Vec::new());
    for nodes in sizes(setting.nodes) {
        let jobs = if *key == "growth" {
            JOBS
        } else {
            JOBS_EACH * nodes
        };
        let plan = scenario(nodes, jobs, setting.scale)?.plan(jobs, seed);
        let played = armento_sim::play(&plan, &policy, prices(), seed);
        let row = Row::of(jobs, "armento", 0, &plan, &played);
        all.set(format!("{key}.{nodes}.s"), row.makespan_s);
        if let Some(power) = row.power {
            all.set(format!("{key}.{nodes}.w"), power);
        }
        rows.push(row);
    }
    Ok(Measured {
        values: all,
        raw: json!({ "rows": rows }),
        ..Measured::default()
    })
}

/// A straight line from the number before, and from the paper's three.
fn forecasts(all: &mut Values) {
    for (key, _) in TASKS {
        let pattern = format!("{key}.{{n}}.w");
        let sizes = all.numbers(&[&pattern]).unwrap_or_default();
        for pair in sizes.windows(2) {
            let (before, n) = (pair[0], pair[1]);
            if let Some(w) = all.get(&format!("{key}.{before}.w")) {
                all.set(format!("{key}.{n}.forecast"), w * n as f64 / before as f64);
            }
        }
    }
}

fn prepare(setting: &Setting) -> Result<Value> {
    let wanted_s = Mode::Mono.single_s() * setting.scale;
    let prepared = crate::encoders::prepare(Mode::Mono, wanted_s, speed_of(setting.nodes))?;
    clip_fits(&prepared, setting)?;
    Ok(serde_json::to_value(prepared)?)
}

fn live_runs(setting: &Setting) -> Vec<Run> {
    let single_s = Mode::Mono.single_s() * setting.scale;
    let run = |n: usize| Run {
        name: format!("N = {n}"),
        expect_s: single_s / n as f64 + 12.0,
    };
    (1..=setting.nodes).map(run).collect()
}

fn convert(run: &Run, _: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    let nodes = run.name.strip_prefix("N = ").and_then(|n| n.parse().ok());
    let nodes: usize = nodes.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let prepared: Prepared = serde_json::from_value(setup.clone())?;
    let work = Work::new(&prepared)?;
    converted(&work, nodes, Topology::Switch, &format!("growth.{nodes}"))
}

fn live_forecasts(all: &mut Values) {
    let single = all.get("growth.1.s");
    for n in all.numbers(&["growth.{n}.s"]).unwrap_or_default() {
        if let (Some(single), Some(s)) = (single, all.get(&format!("growth.{n}.s"))) {
            all.set(format!("growth.{n}.w"), single / s);
        }
    }
    forecasts(all);
}

fn simulated_chapter(found: &Found) -> Chapter {
    let mut chapter = Chapter::default();
    for (key, task) in TASKS {
        chapter.tables.push(curve(found, key, task));
        chapter.plots.push(picture(found, key, task));
    }
    chapter.notes.push(
        "24 conversions cannot use more than 24 nodes, and where their number is no multiple of the nodes, some nodes have one \
         more to do. A farm that is filled grows on: there each further node adds what home's work for files leaves."
            .into(),
    );
    chapter
}

fn live_chapter(found: &Found) -> Chapter {
    Chapter {
        tables: vec![curve(found, "growth", "24 mono conversions")],
        plots: vec![picture(found, "growth", "24 mono conversions")],
        notes: Vec::new(),
    }
}

fn curve(found: &Found, key: &str, task: &str) -> Table {
    // The paper's task alone has a published value: that of three nodes.
    let printed = key == "growth";
    let mut heads = vec![
        "N",
        "seconds",
        "W(N)",
        "W(N) over N, %",
        "forecast from the size before",
        "forecast over W, %",
    ];
    if printed {
        heads.push("W over Z, mono, point to point, from published times");
    }
    let mut all = Table::new(format!("{task}: power in nodes, W(N)"), &heads);
    let pattern = format!("{key}.{{n}}.s");
    let sizes = found.values.numbers(&[&pattern]).unwrap_or_default();
    let sizes = if sizes.is_empty() { vec![3] } else { sizes };
    for n in sizes {
        let get = |name: &str| found.mean(&format!("{key}.{n}.{name}"));
        let (w, forecast) = (get("w").map(|m| m.mean), get("forecast").map(|m| m.mean));
        let shown = |v: Option<f64>, decimals| {
            v.map_or_else(Cell::unrun, |v| Cell::recomputed(v, decimals))
        };
        let error = || Some((forecast? / w? - 1.0) * 100.0);
        let mut cells = vec![
            Cell::label(n.to_string()),
            Cell::measured(get("s"), 1),
            Cell::measured(get("w"), 3),
            shown(w.map(|w| w / n as f64 * 100.0), 1),
            match n {
                1 => Cell::unprinted(),
                _ => shown(forecast, 3),
            },
            match n {
                1 => Cell::unprinted(),
                _ => shown(error(), 1),
            },
        ];
        if printed {
            let share = values().get("mono.p2p.share").filter(|_| n == 3);
            cells.push(share.map_or_else(Cell::unprinted, |s| Cell::recomputed(s * 3.0, 3)));
        }
        all.rows.push(cells);
    }
    all
}

fn picture(found: &Found, key: &str, task: &str) -> Plot {
    let series = |name: &str, what: &str, line| {
        let pattern = format!("{key}.{{n}}.{what}");
        let sizes = found.values.numbers(&[&pattern]).unwrap_or_default();
        let point = |n: u64| Some((n as f64, found.value(&format!("{key}.{n}.{what}"))?));
        Series {
            name: name.into(),
            line,
            points: sizes.into_iter().filter_map(point).collect(),
        }
    };
    let measured = series("W(N)", "w", Line::Joined);
    let most = measured.points.last().map_or(0.0, |p| p.0);
    let three = found.value(&format!("{key}.3.w"));
    let straight = |name: &str, each: f64| Series {
        name: name.into(),
        line: Line::Thin,
        points: vec![(0.0, 0.0), (most, most * each)],
    };
    let mut all = vec![measured, straight("N nodes", 1.0)];
    if let Some(w) = three.filter(|_| most > 3.0) {
        all.push(straight(
            "straight line from 3 nodes, as in the paper",
            w / 3.0,
        ));
    }
    Plot {
        title: format!("{task}: equivalent power"),
        x: "nodes".into(),
        y: "W(N), nodes".into(),
        content: Content::Lines(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_at_the_wanted_one() {
        assert_eq!(sizes(4), [1, 2, 3, 4]);
        assert_eq!(sizes(100).last(), Some(&100));
        assert_eq!(sizes(11).last(), Some(&11));
    }

    #[test]
    fn forecasts_are_straight_lines() {
        let mut all = Values::default();
        all.set("growth.1.s", 90.0);
        all.set("growth.2.s", 50.0);
        all.set("growth.4.s", 30.0);
        live_forecasts(&mut all);
        assert_eq!(all.get("growth.4.w"), Some(3.0));
        assert_eq!(all.get("growth.4.forecast"), Some(3.6));
        assert_eq!(all.get("growth.1.forecast"), None);
    }
}
